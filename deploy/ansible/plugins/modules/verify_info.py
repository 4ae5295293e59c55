#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Compares a host with what was applied."""
from __future__ import annotations

DOCUMENTATION = r"""
module: verify_info
short_description: Compare a host with what was applied
version_added: 0.1.0
description:
  - Returns whether every applied value is still set. Writes nothing, and does not fail where one is not.
extends_documentation_fragment:
  - mpps.host.host
  - mpps.host.host.reads
"""

EXAMPLES = r"""
- name: See whether the host is as applied
  mpps.host.verify_info:
  register: found
"""

RETURN = r"""
state:
  description: The state in one word, such as V(applied), V(drifted), V(waiting) or V(clean).
  returned: always
  type: str
drifted:
  description: The applied values that are not as they were applied.
  returned: always
  type: list
  elements: dict
transactions:
  description: The applied transactions, oldest first.
  returned: always
  type: list
  elements: dict
reboot_required:
  description: Whether values take effect only after a reboot of the host.
  returned: always
  type: bool
guest_restarts:
  description: Guests that have to be restarted before values take effect.
  returned: always
  type: list
  elements: str
"""

from ansible_collections.mpps.host.plugins.module_utils.mpps import host_module, status, waits


def main():
    module = host_module()
    found = status(module)
    module.exit_json(
        changed=False, state=found["state"], transactions=found["transactions"],
        drifted=[row for row in found["rows"] if row["state"] == "drifted"], **waits(found))


if __name__ == "__main__":
    main()
