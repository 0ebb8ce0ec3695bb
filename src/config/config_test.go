// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// The files beside fastpath, as OpenWrt writes them for a PPPoE line on a VLAN.
const (
	networkFile = `
config interface 'loopback'
	option device 'lo'
	option proto 'static'

config device
	option name 'br-lan'
	option type 'bridge'
	list ports 'eth1'

config device
	option name 'eth1'
	option gro '0'

config interface 'lan'
	option device 'br-lan'
	option proto 'static'

config interface 'wan'
	option device 'eth0.35'
	option proto 'pppoe'

config interface 'wan6'
	option device '@wan'
	option proto 'dhcpv6'

config interface 'modem'
	option proto 'qmi'
`
	firewallFile = `
config defaults
	option input 'REJECT'

config zone
	option name 'lan'
	list network 'lan'

config zone
	option name 'wan'
	option network 'wan wan6'
`
)

// files are the texts of a configuration directory.
type files map[string]string

// openwrt is the usual directory with our file in it.
func openwrt(fastpath string) files {
	return files{"network": networkFile, "firewall": firewallFile, "fastpath": fastpath}
}

// dir writes the files into a directory of their own.
func (f files) dir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range f {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// load reads the files leniently and checks that strict loading agrees: the
// same Config, or the same problems and none. Places lose their directory.
func (f files) load(t *testing.T) (c Config, problems, notices []string) {
	t.Helper()
	dir := f.dir(t)
	d := Dirs{Config: dir}
	c, err := LoadLenient(d)
	strict, strictErr := Load(d)
	if !reflect.DeepEqual(err, strictErr) {
		t.Fatalf("LoadLenient says %v, Load says %v", err, strictErr)
	}
	if err == nil && !reflect.DeepEqual(c, strict) || err != nil && !reflect.DeepEqual(strict, Config{}) {
		t.Fatalf("with error %v: LoadLenient gave\n%+v\nLoad gave\n%+v", err, c, strict)
	}
	var all Problems
	if err != nil && !errors.As(err, &all) {
		t.Fatalf("the error is %T", err)
	}
	return c, texts(dir, all), texts(dir, c.Notices)
}

func texts(dir string, all []Problem) (lines []string) {
	for _, p := range all {
		lines = append(lines, strings.ReplaceAll(p.String(), dir+"/", ""))
	}
	return lines
}

// same compares lines and shows where they differ.
func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\ngot\n  %s\nwant\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// bare is the value without its places, which hold a temporary directory.
func bare[T any](v T) T {
	clear := reflect.ValueOf(&v).Elem()
	clearPos(clear)
	return v
}

func clearPos(v reflect.Value) {
	switch {
	case v.Type() == reflect.TypeFor[Pos]():
		v.SetZero()
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				clearPos(v.Field(i))
			}
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			clearPos(v.Index(i))
		}
	}
}
