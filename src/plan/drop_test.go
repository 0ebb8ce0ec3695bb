// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"fastpath/src/state"
)

// setDrop: chains stand on devices that exist, refer to sets that aren't empty,
// and know no form of frame twice.
func (r *router) setDrop(d state.Drop) error {
	if len(d.Sets) == 0 || len(d.Chains) == 0 || r.o.Drop.Is(&d) {
		return errors.New("senseless")
	}
	for _, s := range d.Sets {
		if len(s.V4)+len(s.V6) == 0 {
			return errors.New("an empty set")
		}
	}
	names := map[string]bool{}
	for _, c := range d.Chains {
		if r.link(c.Port) == nil {
			return fmt.Errorf("%s: %w", c.Port, errNoDevice)
		}
		if names[c.Name()] {
			return fmt.Errorf("EEXIST: %s", c.Name())
		}
		names[c.Name()] = true
		if c.Number != state.NumberIngress && !r.o.Hooks.Early.OK {
			return errors.New("EOPNOTSUPP: no such hook")
		}
		rules := c.Rules(d.Sets)
		slices.Sort(rules)
		if len(rules) == 0 || len(slices.Compact(rules)) != len(d.Sets)*len(c.Forms) {
			return fmt.Errorf("%s: a rule twice: %v", c.Name(), rules)
		}
	}
	r.o.Drop = d.State()
	return nil
}

func (r *router) validate(v state.Validation) {
	r.o.Table.Validation = state.Validation{Input: readBack(v.Input), Forward: readBack(v.Forward)}
}

// printDrop is what drops by source, as nft would list it but for the matches.
func printDrop(d *state.Drop) string {
	if d == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "table netdev %s {\n", state.TableName)
	for _, s := range d.Sets {
		fmt.Fprintf(&b, "\tset %s {\n\t\ttype %s_addr\n\t\tflags interval\n\t\t%d elements\n\t}\n\n", s.Name, s.Family, len(s.V4)+len(s.V6))
	}
	for _, c := range d.Chains {
		fmt.Fprintf(&b, "\tchain %s {\n\t\ttype filter hook %d device %q priority -200; policy accept;\n", c.Name(), c.Number, c.Port)
		for _, rule := range c.Rules(d.Sets) {
			fmt.Fprintf(&b, "\t\t%s\n", rule)
		}
		b.WriteString("\t}\n")
	}
	return b.String() + "}\n"
}

func printValidation(v state.Validation) string {
	var b strings.Builder
	for _, chain := range []struct {
		name, hook string
		rules      []state.Rule
	}{{state.ValidateInput, "input", v.Input}, {state.ValidateForward, "forward", v.Forward}} {
		if len(chain.rules) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n\tchain %s {\n\t\ttype filter hook %s priority filter - 10; policy accept;\n", chain.name, chain.hook)
		for _, r := range chain.rules {
			fmt.Fprintf(&b, "\t\t%s\n", r)
		}
		b.WriteString("\t}\n")
	}
	return b.String()
}
