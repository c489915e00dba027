/* SPDX-License-Identifier: MIT */
/*
** What the allocator (alloc.c) has of an arena.
*/
#ifndef RIDGE_BASE_ARENA_H
#define RIDGE_BASE_ARENA_H

#include "base/base.h"
#include "base/layout.h"
#include "base/size_class.h"

/* Cached blocks of one size. */
typedef struct rg_free_list {
  void **blocks;
  int64_t n;
  int64_t room;
} rg_free_list;

/* What an arena has of one device's memory, or the pool of one stream's. */
typedef struct rg_arena_part {
  rg_free_list lists[N_CLASSES];
  int64_t n_own[N_CLASSES]; /* blocks of each class, cached and in use */
} rg_arena_part;

struct rg_arena {
  rg_arena_part *parts[RG_DEVICES]; /* made when they are needed first */
  int64_t bytes;                    /* of all its blocks */
  int64_t n_used;                   /* blocks in use */
  uint32_t streams;                 /* that a plan ran on, a bit each */
  bool closed;
  bool scratch;    /* a request may get a larger block */
  rg_slots *notes; /* of requests for the CPU's memory; NULL: nobody wants them */
  rg_slots layout; /* that requests obey */
  rg_arena *from;  /* whose layout lends what is asked for; NULL: none */
  int32_t from_at; /* what that has free at this time */
};

#endif
