/* SPDX-License-Identifier: MIT */
/* Groups of ranks whose messages go through memory: all ranks are of one process. */
#ifndef RIDGE_TESTS_GROUPS_H
#define RIDGE_TESTS_GROUPS_H

#include "tap.h"

#include <pthread.h>

#include "dist/group.h"

enum { MOST = 5 };

static _Atomic int32_t looks;   /* for a message */
static _Atomic int64_t longest; /* bytes of one */
static _Atomic bool stuck;      /* messages that go are never done */

typedef struct message {
  struct message *next;
  int32_t tag;
  int64_t n;
  char bytes[];
} message;

typedef struct net net;

typedef struct endpoint {
  net *all;
  int32_t rank;
  struct {
    void *to; /* NULL: it goes */
    int64_t n;
    int32_t peer;
    int32_t tag;
  } slots[2 * MOST];
} endpoint;

struct net {
  pthread_mutex_t lock;
  message *queue[MOST][MOST]; /* from, to */
  endpoint ends[MOST];
  int32_t size;
  int32_t ended;
};

static rg_status net_send(void *self, int32_t slot, int32_t peer, int32_t tag, const void *bytes,
                          int64_t n)
{
  endpoint *e = self;
  message *m = malloc(sizeof(*m) + (size_t)n);
  message **at = &e->all->queue[e->rank][peer];

  if (m == NULL) return rg_fail(RG_ENOMEM, "no memory");
  *m = (message){ .tag = tag, .n = n };
  if (n > atomic_load(&longest)) atomic_store(&longest, n);
  memcpy(m->bytes, bytes, (size_t)n);
  e->slots[slot].to = NULL;
  pthread_mutex_lock(&e->all->lock);
  while (*at != NULL)
    at = &(*at)->next;
  *at = m;
  pthread_mutex_unlock(&e->all->lock);
  return RG_OK;
}

static rg_status net_receive(void *self, int32_t slot, int32_t peer, int32_t tag, void *bytes,
                             int64_t n)
{
  endpoint *e = self;

  e->slots[slot].to = bytes;
  e->slots[slot].n = n;
  e->slots[slot].peer = peer;
  e->slots[slot].tag = tag;
  return RG_OK;
}

static rg_status net_test(void *self, int32_t slot, bool *done)
{
  endpoint *e = self;
  message **from = &e->all->queue[e->slots[slot].peer][e->rank];
  message *m = NULL;

  atomic_fetch_add(&looks, 1);
  *done = e->slots[slot].to == NULL;
  if (*done) {
    *done = !atomic_load(&stuck);
    return RG_OK;
  }
  pthread_mutex_lock(&e->all->lock);
  if (*from != NULL && (*from)->tag == e->slots[slot].tag) {
    m = *from;
    *from = m->next;
  }
  pthread_mutex_unlock(&e->all->lock);
  if (m == NULL) return RG_OK;
  *done = true;
  if (m->n != e->slots[slot].n) return rg_fail(RG_ENET, "a message of another length");
  memcpy(e->slots[slot].to, m->bytes, (size_t)m->n);
  free(m);
  return RG_OK;
}

static void net_end(void *self)
{
  endpoint *e = self;

  pthread_mutex_lock(&e->all->lock);
  e->all->ended++;
  pthread_mutex_unlock(&e->all->lock);
}

static rg_status net_open(void *argument, rg_transport *out)
{
  endpoint *e = argument;

  *out = (rg_transport){ .name = "memory",
                         .self = e,
                         .rank = e->rank,
                         .size = e->all->size,
                         .local_rank = e->rank,
                         .local_size = e->all->size,
                         .send = net_send,
                         .receive = net_receive,
                         .test = net_test,
                         .end = net_end };
  return RG_OK;
}

/* Calls are started for all ranks before the first is waited for, so one thread does for all. */
static void open_all(net *all, int32_t size, rg_group **groups)
{
  *all = (net){ .size = size };
  pthread_mutex_init(&all->lock, NULL);
  for (int32_t r = 0; r < size; r++) {
    all->ends[r] = (endpoint){ .all = all, .rank = r };
    if (rg_group_new(net_open, &all->ends[r], 0, &groups[r]) != RG_OK) {
      tap_bail("no group");
    }
  }
}

static void close_all(net *all, rg_group **groups)
{
  for (int32_t r = 0; r < all->size; r++) {
    rg_group_release(groups[r]);
  }
  for (int32_t i = 0; i < all->size * all->size; i++) {
    message **queue = &all->queue[i / all->size][i % all->size];

    while (*queue != NULL) {
      message *m = *queue;

      *queue = m->next;
      free(m);
    }
  }
  pthread_mutex_destroy(&all->lock);
}

#endif
