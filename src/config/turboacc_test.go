// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTurboACC(t *testing.T) {
	for text, line := range map[string]int{
		"config turboacc 'config'\n\toption sw_flow '1'\n\toption hw_flow '0'\n":  2,
		"config turboacc 'config'\n\toption sw_flow '0'\n\toption hw_flow '1'\n":  3,
		"config turboacc 'config'\n\toption sw_flow '0'\n\toption sfe_flow '1'\n": 0,
		"config other 'config'\n\toption sw_flow '1'\n":                           0,
		"nonsense": 0,
	} {
		dir := t.TempDir()
		for name, content := range map[string]string{"fastpath": mainOnly, "turboacc": text} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		c, err := Load(Dirs{Config: dir})
		if err != nil || c.Firewall.TurboACC.Line != line {
			t.Errorf("%q: %+v, %v, want line %d", text, c.Firewall.TurboACC, err, line)
		}
	}
}
