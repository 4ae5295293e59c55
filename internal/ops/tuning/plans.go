package tuning

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/advise/tune"
)

// planFiles returns the names of files for n plans: plan.json, plan.2.json and so on.
func planFiles(name string, n int) []string {
	names := []string{name}
	ext := filepath.Ext(name)
	for i := 2; i <= n; i++ {
		names = append(names, fmt.Sprintf("%s.%d%s", strings.TrimSuffix(name, ext), i, ext))
	}
	return names
}

// writePlans writes the plans of what was kept, one per file, and warns about their order if there are several.
func (o *Options) writePlans(plans []*plan.Plan, r *tune.Result) error {
	if o.PlanFile == "" {
		return nil
	}
	names := planFiles(o.PlanFile, len(plans))
	for i, p := range plans {
		var text bytes.Buffer
		if err := plan.Encode(&text, p); err != nil {
			return err
		}
		if err := o.Write(names[i], text.Bytes()); err != nil {
			return err
		}
	}
	if len(plans) > 1 {
		r.Warnings = append(r.Warnings, tune.Warning{
			Code: "several-plans", Text: fmt.Sprintf("what was kept is %d plans, since later ones are about what "+
				"earlier ones make: %s", len(plans), strings.Join(names, ", ")),
			Hint: "apply them in this order: 'mpps apply " + strings.Join(names, "' && 'mpps apply ") + "'",
		})
	}
	return nil
}
