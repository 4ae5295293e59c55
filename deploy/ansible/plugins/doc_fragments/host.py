# SPDX-License-Identifier: Apache-2.0
"""What all modules of this collection have in common."""
from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  executable:
    description: The program mpps on the host.
    type: str
    default: mpps
notes:
  - The goal is that of C(/etc/mpps/goal.yaml) on the host.
author:
  - the authors of mpps (@mpps)
"""

    READS = r"""
attributes:
  check_mode:
    description: Can run in check mode, where it does the same. It changes nothing.
    support: full
"""
