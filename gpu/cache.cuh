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
** The path of a file in ridge's folder.
**
** name   without a slash, at most 32 bytes
** make   make the folders too
** False: there is no such folder, or no room.
*/
bool rg_cache_path(const char *name, bool make, char *path, size_t room);

/* FNV-1a (Fowler, Noll, Vo); h: RG_HASH_BEGIN, or what the part before gave. */
static const uint64_t RG_HASH_BEGIN = 14695981039346656037u;
uint64_t rg_hash(const void *data, size_t bytes, uint64_t h);

#endif
