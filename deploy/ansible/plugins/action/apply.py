# SPDX-License-Identifier: Apache-2.0
"""Applies, comes back over a new connection, and confirms. Without the confirmation the host undoes the changes."""
from __future__ import annotations

import time

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        result.update(self._execute_module(module_name="mpps.host.apply", task_vars=task_vars))
        within = result.get("confirm_within", 0)
        if result.get("failed") or self._task.check_mode or not result.get("transaction") or not within:
            return result
        kept = self._confirm(result["transaction"], time.monotonic() + within, task_vars)
        result["confirmed"] = not kept.get("failed")
        if not result["confirmed"]:
            result.update(failed=True, msg="not confirmed, so the host undoes the changes: " + kept["msg"])
        return result

    def cleanup(self, force=False):
        """Removes temporary files, if it can: what became of the host is in the result, and must not be lost."""
        try:
            super().cleanup(force)
        except AnsibleConnectionFailure:
            pass

    def _confirm(self, transaction, until, task_vars):
        """Confirms over a new connection, which may need several attempts."""
        args = {"transaction": transaction}
        if "executable" in self._task.args:
            args["executable"] = self._task.args["executable"]
        while True:
            try:
                self._connection.reset()
                return self._execute_module(module_name="mpps.host.confirm", module_args=args, task_vars=task_vars)
            except AnsibleConnectionFailure as failure:
                if time.monotonic() + 1 > until:
                    return {"failed": True, "msg": str(failure)}
                time.sleep(1)
