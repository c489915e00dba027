/* SPDX-License-Identifier: MIT */
/*
** Statistics by tag: blocks that are taken while a thread's tag is set are counted under it, as
** long as they live.  Counting is the allocator's, under its lock; where no tag is set it costs a
** comparison.
*/
#include <string.h>

#include "base/base.h"

enum { TAGS = 64 };

_Thread_local uint8_t rg_tag_now;

static char names[TAGS][RG_TAG_NAME]; /* 0: no tag */
static int32_t n_names = 1;
static rg_spin lock; /* of the names */
static rg_tag_memory counts[RG_DEVICES + 1][TAGS];

/* -- For the allocator ----------------------------------------------------------------- */

void rg_tag_took(int32_t device, uint8_t tag, int64_t bytes)
{
  rg_tag_memory *m = &counts[device][tag];

  m->live_bytes += bytes;
  m->peak_bytes = rg_max_i64(m->peak_bytes, m->live_bytes);
  m->n_blocks++;
}

void rg_tag_gave(int32_t device, uint8_t tag, int64_t bytes)
{
  counts[device][tag].live_bytes -= bytes;
  counts[device][tag].n_blocks--;
}

void rg_tag_reset_peaks(int32_t device)
{
  for (int32_t i = 1; i < TAGS; i++) {
    counts[device][i].peak_bytes = counts[device][i].live_bytes;
  }
}

/* -- For everybody --------------------------------------------------------------------- */

rg_status rg_memory_tag(const char *name, int32_t *out)
{
  int32_t found = 0;

  if (name == NULL || name[0] == '\0' || strlen(name) >= RG_TAG_NAME) {
    return rg_fail(RG_EARG, "memory: a tag is a name of 1 to %d bytes", RG_TAG_NAME - 1);
  }
  rg_spin_enter(&lock);
  for (int32_t i = 1; i < n_names && found == 0; i++) {
    found = strcmp(names[i], name) == 0 ? i : 0;
  }
  if (found == 0 && n_names < TAGS) {
    found = n_names;
    memcpy(names[found], name, strlen(name) + 1);
    n_names++;
  }
  rg_spin_leave(&lock);
  if (found == 0) {
    return rg_fail(RG_EARG, "memory: there are %d tags already; '%s' is one too many", TAGS - 1,
                   name);
  }
  *out = found;
  return RG_OK;
}

int32_t rg_memory_tag_enter(int32_t tag)
{
  int32_t before = rg_tag_now;

  rg_tag_now = tag > 0 && tag < TAGS ? (uint8_t)tag : 0;
  return before;
}

const char *rg_memory_tag_name(int32_t tag)
{
  return tag > 0 && tag < n_names ? names[tag] : NULL;
}

rg_status rg_memory_tag_of(int32_t device, int32_t tag, rg_tag_memory *out)
{
  if (device < 0 || device > RG_DEVICES || tag < 1 || tag >= n_names || out == NULL) {
    return rg_fail(RG_EARG, "memory: there is no tag %d of device %d", tag, device);
  }
  *out = counts[device][tag];
  return RG_OK;
}
