/* SPDX-License-Identifier: MIT */
/*
** A chain (op/fused.h) as the text of a kernel: straight code, in which nothing is asked any more
** about which function comes next, how a tensor lies, what its elements are.
*/
#ifndef RIDGE_GPU_FUSED_TEXT_H
#define RIDGE_GPU_FUSED_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "gpu/fused/data.h"

extern "C" {
#include "op/fused.h"
}

/* All that the text of a kernel depends on, and nothing else; what is not used is 0. */
struct rg_fused_form {
  rg_link link[RG_FUSED_LINKS];
  uint8_t in_type[RG_FUSED_READ], in_lies[RG_FUSED_READ];
  uint8_t out_type[RG_FUSED_WRITTEN], out_lies[RG_FUSED_WRITTEN];
  int32_t n;      /* links */
  int32_t narrow; /* 1: counts fit 32 bits */
  int32_t packs;  /* that a thread takes at a time, of eight: 2 of very many */
};

/* The name of the kernel in the text. */
#define RG_FUSED_KERNEL "rg_compiled_chain"
enum { RG_FUSED_TEXT_MOST = 32 << 10 };

/* Write the text and a zero; how long it is, or 0 where there is no room or a link has no text. */
size_t rg_fused_text(const rg_fused_form *form, char *to, size_t room);

#endif
