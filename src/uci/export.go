// SPDX-License-Identifier: Apache-2.0

package uci

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

var quotes = strings.NewReplacer(`'`, `'\''`)

// Export writes the package as `uci export` does, byte for byte. Reading it
// again gives the same package, unless a section's type holds a character that
// the language gives a meaning to (' " \ # ;): a type is not quoted.
func Export(w io.Writer, p *Package) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "package %s\n", quotes.Replace(p.Name))
	for _, s := range p.Sections {
		fmt.Fprintf(b, "\nconfig %s", quotes.Replace(s.Type))
		if !s.Anonymous {
			fmt.Fprintf(b, " '%s'", s.Name)
		}
		fmt.Fprintln(b)
		for _, o := range s.Options {
			exportOption(b, o)
		}
	}
	fmt.Fprintln(b)
	if err := b.Flush(); err != nil {
		return fmt.Errorf("export %s: %w", p.Name, err)
	}
	return nil
}

func exportOption(b *bufio.Writer, o *Option) {
	keyword := "option"
	if o.List {
		keyword = "list"
	}
	for _, v := range o.Values {
		fmt.Fprintf(b, "\t%s %s '%s'\n", keyword, o.Name, quotes.Replace(v.Text))
	}
}
