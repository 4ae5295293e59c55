#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Applies the goal of a host."""
from __future__ import annotations

DOCUMENTATION = r"""
module: apply
short_description: Apply the goal of a host as one transaction
version_added: 0.1.0
description:
  - Plans for the goal of the host and applies the plan as one transaction, which M(mpps.host.rollback) undoes.
  - The changes are undone by the host itself unless they are confirmed over a new connection.
  - Nothing is rebooted and no guest is restarted.
extends_documentation_fragment: mpps.host.host
attributes:
  check_mode:
    description: Can run in check mode, and writes nothing there.
    support: full
  diff_mode:
    description: Returns the values before and after.
    support: full
options:
  confirm:
    description: Seconds within which a new connection must confirm the changes. 0 asks for no confirmation.
    type: int
    default: 60
  resume:
    description: Apply the rest of a plan after the reboot or restart that it needed, if there is one.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Apply the goal
  mpps.host.apply:
  register: applied
"""

RETURN = r"""
transaction:
  description: The transaction. Empty where nothing had to be written.
  returned: always
  type: str
changes:
  description: What became of each change.
  returned: always
  type: list
  elements: dict
handover:
  description: Settings that only the platforms of guests can change.
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
confirm_within:
  description: Seconds within which the changes had to be confirmed. 0 if they did not.
  returned: always
  type: float
confirmed:
  description: Whether a new connection confirmed the changes.
  returned: when the changes had to be confirmed
  type: bool
"""

from ansible_collections.mpps.host.plugins.module_utils.mpps import NOT_CONFIGURED, ask, diff, host_module, status, waits


def main():
    module = host_module(confirm={"type": "int", "default": 60}, resume={"type": "bool", "default": False})
    words = ["apply", "--yes"]
    handover = []
    if module.params["resume"]:
        if not status(module).get("remains"):
            module.exit_json(changed=False, transaction="", changes=[], handover=[], confirm_within=0, **waits({}))
        words.append("--resume")
    else:
        handover = ask(module, "plan").get("handover", [])
    if module.check_mode:
        result = ask(module, *words, "--dry-run")
        made = [c for c in result["changes"] if c["state"] == "intended"]
    else:
        result = ask(module, *words, "--confirm", "%ds" % module.params["confirm"], codes=(NOT_CONFIGURED,))
        made = [c for c in result["changes"] if c["state"] == "done"]
    module.exit_json(
        changed=bool(made), transaction=result.get("tx", ""), changes=result["changes"], handover=handover,
        confirm_within=result.get("confirm_within_seconds", 0), diff=diff(made),
        **waits(status(module), made))


if __name__ == "__main__":
    main()
