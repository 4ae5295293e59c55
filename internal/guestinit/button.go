package guestinit

import (
	"bytes"
	"context"
	"errors"

	"github.com/mdlayher/genetlink"
)

// powerButton waits for the ACPI power button, which the kernel reports to the generic netlink family "acpi_event"
// (drivers/acpi/event.c). It ends with ctx.
func powerButton(ctx context.Context) error {
	c, err := genetlink.Dial(nil)
	if err != nil {
		return err
	}
	defer c.Close()
	family, err := c.GetFamily("acpi_event")
	if err != nil {
		return err
	}
	if len(family.Groups) == 0 {
		return errors.New("family acpi_event has no group")
	}
	if err := c.JoinGroup(family.Groups[0].ID); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
	for {
		msgs, _, err := c.Receive()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		for _, m := range msgs {
			// One attribute: struct acpi_genl_event, which begins with the device class.
			if bytes.Contains(m.Data, []byte("button/power")) {
				return nil
			}
		}
	}
}
