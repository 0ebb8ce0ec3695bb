// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const repository = "../.."

// build packs the repository's own files with a stand-in for the binary.
func build(t *testing.T) []byte {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "fastpath")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\nexit 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := daemon(pkg{version: "1.2.3-r4", arch: "x86_64", epoch: epoch}, repository, binary)
	if err != nil {
		t.Fatal(err)
	}
	ipk, err := p.ipk()
	if err != nil {
		t.Fatal(err)
	}
	return ipk
}

// unpack returns the two inner archives of a package.
func unpack(t *testing.T, ipk []byte) (data, control []byte) {
	t.Helper()
	all := readTarGz(t, ipk)
	sameLines(t, "GNU tar's list of the package", gnuListing(t, ipk), listing(all))
	var names []string
	for _, m := range all {
		names = append(names, m.Name)
	}
	sameLines(t, "members", names, []string{"./debian-binary", "./data.tar.gz", "./control.tar.gz"})
	if got := string(all[0].data); got != "2.0\n" {
		t.Errorf("debian-binary is %q", got)
	}
	return all[1].data, all[2].data
}

// find returns the member of that name.
func find(t *testing.T, all []member, name string) member {
	t.Helper()
	for _, m := range all {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("no %s", name)
	return member{}
}

func TestPackageData(t *testing.T) {
	data, _ := unpack(t, build(t))
	all := readTarGz(t, data)
	sameLines(t, "GNU tar's list of the data", gnuListing(t, data), listing(all))
	var got []string
	for _, m := range all {
		got = append(got, strconv.FormatInt(m.Mode, 8)+" "+m.Name)
	}
	sameLines(t, "what the package puts onto the router", got, []string{
		"755 ./",
		"755 ./etc/",
		"755 ./etc/config/",
		"600 ./etc/config/fastpath",
		"755 ./etc/hotplug.d/",
		"755 ./etc/hotplug.d/iface/",
		"755 ./etc/hotplug.d/iface/60-fastpath",
		"755 ./etc/hotplug.d/net/",
		"755 ./etc/hotplug.d/net/60-fastpath",
		"755 ./etc/init.d/",
		"755 ./etc/init.d/fastpath",
		"755 ./lib/",
		"755 ./lib/upgrade/",
		"755 ./lib/upgrade/keep.d/",
		"644 ./lib/upgrade/keep.d/fastpath",
		"755 ./usr/",
		"755 ./usr/sbin/",
		"755 ./usr/sbin/fastpath",
	})
	for _, s := range sources {
		want, err := os.ReadFile(filepath.Join(repository, s.from))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(find(t, all, "./"+s.path).data, want) {
			t.Errorf("/%s differs from %s", s.path, s.from)
		}
	}
}

func TestPackageControl(t *testing.T) {
	data, packed := unpack(t, build(t))
	all := readTarGz(t, packed)
	sameLines(t, "GNU tar's list of the control part", gnuListing(t, packed), listing(all))
	var got []string
	for _, m := range all {
		got = append(got, strconv.FormatInt(m.Mode, 8)+" "+m.Name)
	}
	sameLines(t, "control members", got, []string{"755 ./", "644 ./conffiles", "644 ./control", "755 ./postinst", "755 ./prerm"})
	if got := string(find(t, all, "./conffiles").data); got != "/etc/config/fastpath\n" {
		t.Errorf("conffiles is %q", got)
	}

	// One field a line, in ipkg-build's order; continuation lines begin with a blank.
	fields := map[string]string{}
	var order []string
	for line := range strings.Lines(string(find(t, all, "./control").data)) {
		if strings.HasPrefix(line, " ") {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if !ok || value == "" {
			t.Errorf("control: not a field: %q", line)
		}
		fields[name] = value
		order = append(order, name)
	}
	sameLines(t, "control fields", order, []string{"Package", "Version", "Depends", "License", "Section", "SourceDateEpoch",
		"Architecture", "Installed-Size", "Description"})
	for name, want := range map[string]string{
		"Package": "fastpath", "Version": "1.2.3-r4", "Architecture": "x86_64", "SourceDateEpoch": strconv.Itoa(epoch),
		"Depends": "kmod-nf-conntrack-netlink, kmod-nft-fib, kmod-nft-netdev, kmod-nft-offload",
	} {
		if fields[name] != want {
			t.Errorf("control: %s is %q, want %q", name, fields[name], want)
		}
	}
	size, err := strconv.Atoi(fields["Installed-Size"])
	if err != nil || size < len(data) {
		t.Errorf("Installed-Size is %q for %d bytes packed", fields["Installed-Size"], len(data))
	}
}

func TestSameInputSameBytes(t *testing.T) {
	if !bytes.Equal(build(t), build(t)) {
		t.Error("two builds differ")
	}
}

func TestRun(t *testing.T) {
	out := t.TempDir()
	t.Setenv("SOURCE_DATE_EPOCH", strconv.Itoa(epoch))
	args := func(version, arch, root, binary, out string) []string {
		return []string{"ipk", "-version", version, "-arch", arch, "-root", root, "-binary", binary, "-out", out}
	}
	good := args("1-r1", "x86_64", repository, "postinst", out)
	if err := run(good); err != nil {
		t.Fatal(err)
	}
	ipk, err := os.ReadFile(filepath.Join(out, "fastpath_1-r1_x86_64.ipk"))
	if err != nil {
		t.Fatal(err)
	}
	unpack(t, ipk)

	absent := filepath.Join(out, "absent")
	for name, args := range map[string][]string{
		"no command":     {},
		"what is that":   {"deb"},
		"no version":     args("", "x86_64", repository, "postinst", out),
		"a path":         args("../1-r1", "x86_64", repository, "postinst", out),
		"no release":     args("1.2.3", "x86_64", repository, "postinst", out),
		"two lines":      args("1-r1", "x86_64\nEssential: yes", repository, "postinst", out),
		"no binary":      args("1-r1", "x86_64", repository, absent, out),
		"wrong root":     args("1-r1", "x86_64", out, "postinst", out),
		"no such out":    args("1-r1", "x86_64", repository, "postinst", absent),
		"one word more":  append(good, "more"),
		"index of what":  {"index"},
		"an empty index": {"index", t.TempDir()},
	} {
		if err := run(args); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if err := run(good); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH") {
		t.Errorf("SOURCE_DATE_EPOCH=yesterday: %v", err)
	}
}
