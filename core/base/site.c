/* SPDX-License-Identifier: MIT */
/*
** Statistics by line: while they are on, a block is counted under the line of the caller's source
** and the module that took it, as long as it lives.  Counting is the allocator's, under its lock;
** while they are off it costs a comparison.
*/
#include <string.h>

#include "base/base.h"

enum { SITES = 4096, ROOM = 2 * SITES, REST = 1 };

typedef struct site {
  const char *line; /* texts that are kept: their addresses tell them apart */
  const char *module;
} site;

_Atomic bool rg_sites_on;

static site sites[SITES]; /* 0: not counted; REST: all that found no place */
static int32_t n_sites = REST + 1;
static uint16_t places[ROOM]; /* of sites, by hash */
static rg_tag_memory counts[RG_DEVICES + 1][SITES];

/* Caller holds the allocator's lock. */
static uint16_t site_of(const char *line, const char *module)
{
  uint64_t hash = ((uintptr_t)line >> 3) * 0x9e3779b97f4a7c15u;
  uint32_t at;

  hash = (hash ^ ((uintptr_t)module >> 3)) * 0x9e3779b97f4a7c15u;
  at = (uint32_t)(hash >> 40) % ROOM;
  while (places[at] != 0) {
    const site *s = &sites[places[at]];

    if (s->line == line && s->module == module) {
      return places[at];
    }
    at = (at + 1) % ROOM;
  }
  if (n_sites == SITES) {
    return REST;
  }
  sites[n_sites] = (site){ .line = line, .module = module };
  places[at] = (uint16_t)n_sites;
  return (uint16_t)n_sites++;
}

/* -- For the allocator ----------------------------------------------------------------- */

uint16_t rg_site_took(int32_t device, int64_t bytes)
{
  uint16_t number = site_of(rg_place_now.line, rg_place_now.module);
  rg_tag_memory *m = &counts[device][number];

  m->live_bytes += bytes;
  m->peak_bytes = rg_max_i64(m->peak_bytes, m->live_bytes);
  m->n_blocks++;
  return number;
}

void rg_site_gave(int32_t device, uint16_t number, int64_t bytes)
{
  counts[device][number].live_bytes -= bytes;
  counts[device][number].n_blocks--;
}

void rg_site_reset_peaks(int32_t device)
{
  for (int32_t i = REST; i < n_sites; i++) {
    counts[device][i].peak_bytes = counts[device][i].live_bytes;
  }
}

/* -- For everybody --------------------------------------------------------------------- */

int32_t rg_memory_sites(int32_t on)
{
  int32_t before = rg_sites_on ? 1 : 0;

  rg_sites_on = on != 0;
  return before;
}

int32_t rg_memory_site_count(void)
{
  return n_sites - 1;
}

rg_status rg_memory_site_of(int32_t device, int32_t number, rg_site_memory *out)
{
  if (device < 0 || device > RG_DEVICES || number < REST || number >= n_sites || out == NULL) {
    return rg_fail(RG_EARG, "memory: there is no line %d of device %d", number, device);
  }
  const rg_tag_memory *m = &counts[device][number];
  const site *s = &sites[number];

  *out = (rg_site_memory){ .line = number == REST ? "(more lines)" : s->line,
                           .module = s->module,
                           .live_bytes = m->live_bytes,
                           .peak_bytes = m->peak_bytes,
                           .n_blocks = m->n_blocks };
  return RG_OK;
}
