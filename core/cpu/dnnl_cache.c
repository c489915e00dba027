/* SPDX-License-Identifier: MIT */
/*
** oneDNN's primitives that a thread made for eager calls: the last ones it used.
*/
#include <pthread.h>
#include <string.h>

#include "cpu/dnnl.h"

enum { CACHE_MOST = 64 }; /* at least as many as there are workers (matmul.c) */

typedef struct entry entry;
struct entry {
  rg_dnnl_spec spec;
  rg_dnnl *primitive;
  entry *next;
};

static _Thread_local entry *cache;
static _Thread_local bool cache_watched;
static pthread_key_t cache_key;
static pthread_once_t cache_once = PTHREAD_ONCE_INIT;

static void drop(entry *e)
{
  rg_dnnl_release(e->primitive);
  rg_host_free(e);
}

/* A thread ends: its cache goes with it. */
static void drop_cache(void *unused)
{
  (void)unused;
  while (cache != NULL) {
    entry *next = cache->next;

    drop(cache);
    cache = next;
  }
}

static void make_cache_key(void)
{
  pthread_key_create(&cache_key, drop_cache);
}

rg_status rg_dnnl_cached(const rg_dnnl_spec *spec, rg_dnnl **out)
{
  int n = 0;

  /* the last one used stands first */
  for (entry **link = &cache; *link != NULL; link = &(*link)->next) {
    entry *e = *link;

    if (memcmp(&e->spec, spec, sizeof(*spec)) == 0) {
      *link = e->next;
      e->next = cache;
      cache = e;
      *out = e->primitive;
      return RG_OK;
    }
    if (++n == CACHE_MOST) {
      *link = e->next;
      drop(e);
      break;
    }
  }
  if (!cache_watched) {
    pthread_once(&cache_once, make_cache_key);
    pthread_setspecific(cache_key, &cache_watched);
    cache_watched = true;
  }
  entry *e = rg_host_alloc(sizeof(*e));

  if (e == NULL) {
    return rg_fail(RG_ENOMEM, "oneDNN: no memory for a primitive");
  }
  rg_status status = rg_dnnl_new(spec, &e->primitive);

  if (status != RG_OK) {
    rg_host_free(e);
    return status;
  }
  e->spec = *spec;
  e->next = cache;
  cache = e;
  *out = e->primitive;
  return RG_OK;
}
