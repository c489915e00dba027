/* SPDX-License-Identifier: MIT */
/*
** Arenas of the allocator: blocks that are used again inside one, that outlive it, and larger ones
** that it lends.
*/
#include "base/base.h"
#include "blocks.h"
#include "ridge/graph.h"
#include "tap.h"
#include "tensor/tensor.h"

static const rg_memory *memory;

static void test_arenas(void)
{
  rg_arena *arena = NULL;
  rg_block inside;
  rg_block shared = { 0 };
  rg_block outside;
  void *was;
  int64_t live = memory->live_bytes;

  rg_memory_trim(RG_CPU);
  is_status(rg_arena_new(&arena), RG_OK, "an arena");
  is_int(rg_arena_bytes(arena), 0, "is empty");
  is_int(rg_arena_bytes(NULL), 0, "as is none");
  ok(rg_arena_swap(arena) == NULL, "it becomes this thread's");
  inside = take(500);
  was = inside.data;
  is_int(rg_arena_bytes(arena), 512, "a block comes from it");
  is_status(rg_block_alloc_shared(RG_CPU, 500, &shared), RG_OK, "another from the pool");
  is_int(rg_arena_bytes(arena), 512, "which is not counted");
  rg_block_free(&inside);
  inside = take(500);
  ok(inside.data == was, "what is freed into it is used again inside it");
  rg_block_free(&inside);
  is_int(rg_memory_trim(RG_CPU), 0, "and not given back to the system");
  ok(rg_arena_swap(NULL) == arena, "it is nobody's any more");
  outside = take(500);
  ok(outside.data != was, "nobody outside gets its memory");
  ok(rg_arena_swap(arena) == NULL, "inside again");
  inside = take(500);
  ok(inside.data == was, "it is still there");
  rg_arena_swap(NULL);
  rg_block_free(&shared);
  rg_block_free(&outside);
  rg_arena_close(arena);
  memset(inside.data, 1, 500);
  is_int(memory->live_bytes - live, 500, "a block outlives its arena");
  rg_block_free(&inside);
  is_int(memory->live_bytes, live, "and goes back");
  is_int(rg_memory_trim(RG_CPU), 3 * 512, "to the pool");
  rg_arena_close(NULL);
}

static void test_lent(void)
{
  rg_arena *arena = NULL;
  rg_block block;
  void *large;
  int64_t bytes;

  is_status(rg_arena_new(&arena), RG_OK, "an arena");
  rg_arena_swap(arena);
  block = take(100000);
  large = block.data;
  rg_block_free(&block);
  block = take(500);
  ok(block.data != large, "each request has a block of its size");
  rg_block_free(&block);
  rg_arena_lends(arena);
  bytes = rg_arena_bytes(arena);
  block = take(3000);
  ok(block.data == large, "or a larger one, where the arena lends");
  is_int(rg_arena_bytes(arena), bytes, "which takes nothing more");
  rg_block_free(&block);
  block = take(100000);
  ok(block.data == large, "that goes back by its own size");
  rg_block_free(&block);
  rg_arena_swap(NULL);
  rg_arena_close(arena);
}

int main(void)
{
  memory = rg_memory_of(RG_CPU);
  test_arenas();
  test_lent();
  is_int(memory->live_bytes, 0, "no memory is left");
  return done();
}
