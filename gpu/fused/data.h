/* SPDX-License-Identifier: MIT */
/*
** What the kernel of a compiled chain is given.  Kernels are compiled with this file as text
** (text.cu), so it stands alone.
*/
#ifndef RIDGE_GPU_FUSED_DATA_H
#define RIDGE_GPU_FUSED_DATA_H

enum { RG_FUSED_READ = 24, RG_FUSED_WRITTEN = 8, RG_FUSED_THREADS = 256 /* in a block */ };

/* Element i of the chain is at i / div % mod. */
struct rg_fused_part {
  char *data;
  long long div, mod;
};

struct rg_fused_data {
  rg_fused_part in[RG_FUSED_READ], out[RG_FUSED_WRITTEN];
  long long count;
};

/* How neighbours of the chain lie in a tensor: they are neighbours there and begin at 16 bytes, and
** it has as many as the chain, or fewer; eight of them are one element; anything else. */
enum { RG_LIES_WHOLE, RG_LIES_AGAIN, RG_LIES_ONE, RG_LIES_LOOSE };

/* What its elements are. */
enum { RG_PART_F32, RG_PART_F16, RG_PART_BF16 };

#endif
