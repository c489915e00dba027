/* SPDX-License-Identifier: MIT */
/*
** Blocks of the allocator, for its tests.
*/
#ifndef RIDGE_TESTS_BLOCKS_H
#define RIDGE_TESTS_BLOCKS_H

#include "base/base.h"
#include "tensor/tensor.h"

/* A block; its data is NULL where it was refused. */
static rg_block take(int64_t bytes)
{
  rg_block block = { 0 };

  if (rg_block_alloc(RG_CPU, bytes, &block) != RG_OK) {
    block.data = NULL;
  }
  return block;
}

#endif
