package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"mpps/internal/ops/definition"
)

// domainFlags are the flags for values of a definition.
type domainFlags struct {
	definition.Request
	values map[string]*onceFlag // by the flag's name
}

func (f *domainFlags) add(cmd *cobra.Command) {
	f.values = map[string]*onceFlag{}
	flags := cmd.Flags()
	for _, n := range definition.Names() {
		f.values[n.Name] = &onceFlag{}
		flags.Var(f.values[n.Name], n.Name, n.Usage)
	}
	flags.StringSliceVar(&f.NICs, "nic", nil, "MAC address or index of the NICs to change (default: all that support "+
		"the setting)")
	flags.StringArrayVar(&f.Sets, "set", nil, "set any other value: PATH=VALUE ('mpps domain show -v' lists paths); "+
		"repeatable")
	flags.StringArrayVar(&f.Unsets, "unset", nil, "remove the value at PATH; repeatable")
}

// request returns the changes that the flags ask for.
func (f *domainFlags) request() *definition.Request {
	f.Values = map[string]string{}
	for name, value := range f.values {
		f.Values[name] = value.text
	}
	return &f.Request
}

// onceFlag is a flag that may be given only once: of two values neither is clearly meant.
type onceFlag struct {
	text  string
	given bool
}

func (o *onceFlag) String() string { return o.text }
func (*onceFlag) Type() string     { return "string" }

func (o *onceFlag) Set(text string) error {
	if o.given && o.text != text {
		return fmt.Errorf("given before as %s, expected one value", quote(o.text))
	}
	o.text, o.given = text, true
	return nil
}
