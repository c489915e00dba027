/* SPDX-License-Identifier: MIT */
/*
** Texts that are kept once each for as long as the process lives: names that events and the steps
** of plans point to.
*/
#include <string.h>

#include "base/base.h"

enum { ROOM = 1 << 15, MOST_TEXTS = ROOM / 2, MOST_BYTES = 1 << 22 };

static rg_spin lock;
static char **texts; /* ROOM of them, by hash */
static int64_t n_texts;
static int64_t n_bytes;

uint32_t rg_text_hash(const char *text)
{
  uint32_t hash = 2166136261u; /* FNV-1a */

  for (; *text != '\0'; text++) {
    hash = (hash ^ (uint8_t)*text) * 16777619u;
  }
  return hash;
}

/* Caller holds the lock: the place of a text, or of nothing where it would be. */
static char **place_of(const char *text)
{
  uint32_t at = rg_text_hash(text) % ROOM;

  while (texts[at] != NULL && strcmp(texts[at], text) != 0) {
    at = (at + 1) % ROOM;
  }
  return &texts[at];
}

const char *rg_text_keep(const char *text)
{
  char **place = NULL;
  size_t bytes = strlen(text) + 1;

  rg_spin_enter(&lock);
  if (texts == NULL) {
    texts = rg_host_zeroed(ROOM * sizeof(*texts));
  }
  if (texts != NULL) {
    place = place_of(text);
    if (*place == NULL && n_texts < MOST_TEXTS && n_bytes + (int64_t)bytes <= MOST_BYTES) {
      *place = rg_host_alloc(bytes);
      if (*place != NULL) {
        memcpy(*place, text, bytes);
        n_texts++;
        n_bytes += (int64_t)bytes;
      }
    }
  }
  rg_spin_leave(&lock);
  return place != NULL ? *place : NULL;
}
