#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Undoes a transaction."""
from __future__ import annotations

DOCUMENTATION = r"""
module: rollback
short_description: Undo an apply
version_added: 0.1.0
description:
  - Puts back every value that a transaction changed. Nothing changes where it is undone already.
extends_documentation_fragment: mpps.host.host
attributes:
  check_mode:
    description: Can run in check mode, and writes nothing there.
    support: full
  diff_mode:
    description: Returns the values before and after.
    support: full
options:
  transaction:
    description: The transaction. Empty is the newest that is applied.
    type: str
    default: ''
  force:
    description: Also put back values that something else changed since.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Undo the last apply
  mpps.host.rollback:
"""

RETURN = r"""
transaction:
  description: The transaction that is undone. Empty where there was nothing to undo.
  returned: always
  type: str
changes:
  description: What became of each value.
  returned: always
  type: list
  elements: dict
handover:
  description: Empty. Settings of a platform are for that platform to put back.
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

from ansible_collections.mpps.host.plugins.module_utils.mpps import ask, diff, host_module, status, waits


def main():
    module = host_module(transaction={"type": "str", "default": ""}, force={"type": "bool", "default": False})
    stands = [t["tx"] for t in status(module)["transactions"]]
    transaction = module.params["transaction"] or (stands[-1] if stands else "")
    if transaction not in stands:
        module.exit_json(changed=False, transaction="", changes=[], handover=[], **waits({}))
    words = ["rollback"]
    words += ["--force"] if module.params["force"] else []
    words += ["--dry-run"] if module.check_mode else []
    words += ["--", transaction]
    changes = [c for t in ask(module, *words)["transactions"] for c in t["changes"]]
    made = [c for c in changes if c["state"] in ("intended", "done")]
    module.exit_json(
        changed=True, transaction=transaction, changes=changes, handover=[], diff=diff(made),
        **waits(status(module), made))


if __name__ == "__main__":
    main()
