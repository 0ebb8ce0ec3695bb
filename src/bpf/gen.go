// SPDX-License-Identifier: Apache-2.0

package bpf

// The objects are committed; CI makes them again and compares. They hold no
// path of the machine that made them.
//
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -go-package bpf -target bpfel,bpfeb -cc clang-14 -strip llvm-strip-14 -no-global-types fastpath fastpath.c -- -O2 -Wall -Wextra -Wno-sign-compare -Werror -mcpu=v2
