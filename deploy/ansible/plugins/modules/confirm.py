#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Confirms the changes of a transaction."""
from __future__ import annotations

DOCUMENTATION = r"""
module: confirm
short_description: Keep the changes of an apply before the host undoes them
version_added: 0.1.0
description:
  - Confirms a transaction. M(mpps.host.apply) does so by itself, over a new connection.
extends_documentation_fragment: mpps.host.host
attributes:
  check_mode:
    description: Can run in check mode, and confirms nothing there.
    support: full
options:
  transaction:
    description: The transaction.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Keep the changes
  mpps.host.confirm:
    transaction: "{{ applied.transaction }}"
"""

RETURN = r"""
transaction:
  description: The transaction.
  returned: always
  type: str
"""

from ansible_collections.mpps.host.plugins.module_utils.mpps import ask, host_module


def main():
    module = host_module(transaction={"type": "str", "required": True})
    transaction = module.params["transaction"]
    if not module.check_mode:
        ask(module, "confirm", "--", transaction)
    module.exit_json(changed=False, transaction=transaction)


if __name__ == "__main__":
    main()
