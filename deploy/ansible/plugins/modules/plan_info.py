#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Says what would change."""
from __future__ import annotations

DOCUMENTATION = r"""
module: plan_info
short_description: Say what would change for the goal of a host
version_added: 0.1.0
description:
  - Returns the plan of the host. Writes nothing.
extends_documentation_fragment:
  - mpps.host.host
  - mpps.host.host.reads
"""

EXAMPLES = r"""
- name: See what would change
  mpps.host.plan_info:
  register: planned
"""

RETURN = r"""
changes:
  description: The changes, in the order in which they would be made.
  returned: always
  type: list
  elements: dict
handover:
  description: Settings that only the platforms of guests can change.
  returned: always
  type: list
  elements: dict
reboot_required:
  description: Whether changes take effect only after a reboot of the host.
  returned: always
  type: bool
guest_restarts:
  description: Guests that have to be restarted before changes take effect.
  returned: always
  type: list
  elements: str
plan:
  description: The whole plan, as C(mpps plan --json) has it.
  returned: always
  type: dict
"""

from ansible_collections.mpps.host.plugins.module_utils.mpps import ask, host_module, waits


def main():
    module = host_module()
    plan = ask(module, "plan")
    module.exit_json(
        changed=False, changes=plan["changes"], handover=plan.get("handover", []), plan=plan,
        **waits({}, plan["changes"]))


if __name__ == "__main__":
    main()
