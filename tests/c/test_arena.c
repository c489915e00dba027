/* SPDX-License-Identifier: MIT */
/*
** Arenas of the allocator: blocks that are used again inside one, that outlive it, and larger ones
** that it lends; what another one's layout leaves free.
*/
#include <string.h>

#include "base/base.h"
#include "base/layout.h"
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

/* a; b beside it; c in the place of a. */
static void take_three(rg_arena *arena, int32_t at[2], char *lies[3])
{
  rg_block a;
  rg_block b;
  rg_block c;

  rg_arena_swap(arena);
  a = take(200 << 10);
  b = take(100 << 10);
  at[0] = rg_arena_time(arena);
  lies[0] = a.data;
  rg_block_free(&a);
  c = take(50 << 10);
  at[1] = rg_arena_time(arena);
  lies[1] = b.data;
  lies[2] = c.data;
  rg_block_free(&c);
  rg_block_free(&b);
  rg_arena_swap(NULL);
}

static rg_arena *laid_out(int32_t at[2], char *lies[3])
{
  rg_arena *arena = NULL;
  rg_slots slots = { 0 };

  is_status(rg_arena_new(&arena), RG_OK, "an arena for notes");
  rg_arena_note(arena, &slots);
  take_three(arena, at, lies);
  rg_arena_note(arena, NULL);
  rg_arena_close(arena);
  is_status(rg_slots_lay_out(&slots), RG_OK, "a layout");
  is_status(rg_arena_new(&arena), RG_OK, "an arena that obeys it");
  is_status(rg_arena_obey(arena, &slots), RG_OK, "obeys");
  take_three(arena, at, lies);
  return arena;
}

static bool apart(const rg_block *block, const char *other, int64_t bytes)
{
  const char *data = block->data;

  return data + block->bytes <= other || other + bytes <= data;
}

static void test_borrowed(void)
{
  int64_t reserved = memory->reserved_bytes;
  int32_t at[2];
  char *lies[3];
  rg_arena *arena = laid_out(at, lies);
  rg_arena *workspace = NULL;
  rg_block one;
  rg_block two;
  int64_t bytes = rg_arena_bytes(arena);

  is_int(bytes, 300 << 10, "blocks are contiguous");
  is_status(rg_arena_new(&workspace), RG_OK, "another arena");
  rg_arena_swap(workspace);
  rg_arena_borrow(workspace, arena, at[1]);
  one = take(120 << 10);
  ok(apart(&one, lies[1], 100 << 10) && apart(&one, lies[2], 50 << 10) &&
         !apart(&one, lies[0], 200 << 10),
     "what is asked for while c lives lies in the rest of a");
  is_int(rg_arena_bytes(arena) + rg_arena_bytes(workspace), bytes, "and takes nothing more");
  is_int(rg_arena_borrowed(workspace), 1, "one block is borrowed");
  two = take(40 << 10);
  ok(apart(&two, one.data, one.bytes) && apart(&two, lies[1], 100 << 10) &&
         apart(&two, lies[2], 50 << 10),
     "a second one lies apart from it");
  is_int(rg_arena_bytes(arena) - bytes, 40 << 10, "behind the end, where nothing is free");
  memset(one.data, 1, (size_t)one.bytes);
  memset(two.data, 2, (size_t)two.bytes);
  rg_block_free(&two);
  rg_block_free(&one);
  is_int(rg_arena_borrowed(workspace), 0, "and both go back");
  is_int(rg_arena_live(arena), (100 + 50 + 120 + 40) << 10, "they are part of what lives at once");
  rg_arena_borrow(workspace, arena, at[0]);
  one = take(120 << 10);
  ok(apart(&one, lies[0], 200 << 10) && apart(&one, lies[1], 100 << 10),
     "while a and b live nothing of theirs is borrowed");
  is_int(rg_arena_bytes(arena) - bytes, 120 << 10, "the end is where it has to be");
  is_int(rg_arena_bytes(workspace), 0, "the other arena has nothing of its own");
  rg_block_free(&one);
  one = take(4 << 20);
  is_int(rg_arena_bytes(arena) - bytes, 120 << 10, "there is an end to growing");
  ok(rg_arena_bytes(workspace) >= 4 << 20, "then it has");
  rg_block_free(&one);
  rg_arena_borrow(workspace, arena, -1);
  one = take(64);
  is_int(rg_arena_borrowed(workspace), 0, "when no step runs nothing is borrowed");
  rg_block_free(&one);
  rg_arena_swap(NULL);
  rg_arena_close(workspace);
  rg_arena_close(arena);
  rg_memory_trim(RG_CPU);
  ok(memory->reserved_bytes <= reserved, "all of it goes back to the system");
}

int main(void)
{
  memory = rg_memory_of(RG_CPU);
  test_arenas();
  test_lent();
  test_borrowed();
  is_int(memory->live_bytes, 0, "no memory is left");
  return done();
}
