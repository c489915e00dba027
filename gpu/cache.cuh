/* SPDX-License-Identifier: MIT */
/*
** Files that spare the next process what this one found out, in `$XDG_CACHE_HOME/ridge` or, without
** that, ~/.cache/ridge.  They can be deleted at any time.
*/
#ifndef RIDGE_GPU_CACHE_CUH
#define RIDGE_GPU_CACHE_CUH

#include <stddef.h>
#include <stdint.h>

/*
** A file is named without a slash, in at most 32 bytes.  None of these calls waits for anybody: a
** FIFO is neither read nor written.  What cannot be read is not there; what cannot be written is
** found out again.
*/

/* All of a regular file, malloc'd, with a 0 behind it; NULL: there is none, or it is larger than
** most. */
char *rg_cache_read(const char *name, size_t most, size_t *bytes);

/* The next line in [*at, end), without its end, which must be there; NULL: no more.  *at moves on;
** n: its bytes. */
const char *rg_cache_line(const char **at, const char *end, size_t *n);

typedef struct rg_cache_piece {
  const void *data;
  size_t bytes;
} rg_cache_piece;

/* Write a file of n pieces.  All of it is there in the end, or what was there before; its mode and
** links stay. */
bool rg_cache_write(const char *name, const rg_cache_piece *piece, int n);

/* Add a line, its end included, behind those of other processes; where the file would become larger
** than most it starts again. */
bool rg_cache_append(const char *name, const char *line, size_t most);

/* FNV-1a (Fowler, Noll, Vo); h: RG_HASH_BEGIN, or what the part before gave. */
static const uint64_t RG_HASH_BEGIN = 14695981039346656037u;
uint64_t rg_hash(const void *data, size_t bytes, uint64_t h);

#endif
