/* SPDX-License-Identifier: MIT */
/*
** Calls as events of the ring, with what they cost at best and the types and shapes they were of;
** and their names for an attached profiler.
*/
#include <stdio.h>
#include <string.h>

#include "op/op.h"

/* -- Types and shapes ----------------------------------------------------------------- */

/*
** Each combination has one entry in a table of the process: a key of words, for every tensor its
** type, its number of axes and whether it is a result, then its sizes.
*/
enum {
  ROOM_BITS = 14,
  ROOM = 1 << ROOM_BITS,
  MOST_SHAPES = ROOM / 2,
  KEY_TENSORS = 16, /* of a call; those behind are not in it */
  KEY_WORDS = KEY_TENSORS * (RG_MAX_DIMS + 1) + 1,
  TEXT_BYTES = KEY_TENSORS * 96,
  MANY = -2 /* the id of all combinations for which the table has no room */
};

typedef struct shapes {
  int64_t *key; /* n words */
  int64_t n;
  char *text; /* NULL: nobody asked yet */
} shapes;

static rg_spin lock;
static shapes *table;    /* MOST_SHAPES, by id */
static int32_t *by_hash; /* ROOM ids and one, 0: none */
static int32_t n_shapes;

static inline int64_t word_of(const rg_tensor *x, bool result)
{
  return x->_dtype | (int64_t)x->_ndim << 8 | (int64_t)result << 16;
}

static int64_t put(int64_t *key, int64_t n, const rg_tensor *x, bool result)
{
  key[n++] = word_of(x, result);
  for (int32_t i = 0; i < x->_ndim; i++) {
    key[n++] = x->_shape[i];
  }
  return n;
}

/* Results without the hidden ones, which only a call that the tape is told of has. */
static inline int32_t visible_of(const rg_call *call)
{
  int32_t named = 0;

  if (call->op->n_hidden == 0) {
    return call->n_out;
  }
  while (named < RG_MAX_OUT && call->op->result[named] != NULL) {
    named++;
  }
  return call->n_out == named ? named - call->op->n_hidden : call->n_out;
}

/* The words of a call; the first says how many tensors are not in it. */
static int64_t key_of(const rg_call *call, rg_tensor *const *out, int64_t *key)
{
  int32_t visible = visible_of(call);
  int64_t n = 1;
  int32_t left = KEY_TENSORS;

  key[0] = 0;
  for (int32_t i = 0; i < visible; i++) {
    left -= out[i] != NULL;
  }
  for (int32_t i = 0; i < call->n_in; i++) {
    if (call->in[i] != NULL && left > 0) {
      n = put(key, n, call->in[i], false);
      left--;
    } else if (call->in[i] != NULL) {
      key[0]++;
    }
  }
  for (int32_t i = 0; i < visible; i++) {
    if (out[i] != NULL) {
      n = put(key, n, out[i], true);
    }
  }
  return n;
}

/* Behind each word one product, whose upper bits depend on all words: places are taken by them. */
static inline uint64_t stirred(uint64_t hash, int64_t word)
{
  return (hash + (uint64_t)word) * 0x9fb21c651e98df25u;
}

/* A tensor's words from one beginning: those of all tensors of a call are mixed side by side.  What
** joins them has a factor of its own: with the same one a word would count as the next one of the
** tensor behind it, and [a,b] [c,d] be the same for one sum of b and c. */
static inline uint64_t stirred_tensor(uint64_t hash, const rg_tensor *x, bool result)
{
  uint64_t own = stirred(0, word_of(x, result));

  for (int32_t i = 0; i < x->_ndim; i++) {
    own = stirred(own, x->_shape[i]);
  }
  return (hash + own) * 0xd6e8feb86659fd93u;
}

static const uint64_t FIRST_HASH = 0xc2b2ae3d27d4eb4fu;

/* As hash_of, of a call with more tensors than a key may have. */
static __attribute__((noinline)) uint64_t hash_of_many(const rg_call *call, rg_tensor *const *out,
                                                       int32_t visible)
{
  int32_t left = KEY_TENSORS;
  int64_t more = 0;
  uint64_t hash = FIRST_HASH;

  for (int32_t i = 0; i < visible; i++) {
    if (out[i] != NULL) {
      hash = stirred_tensor(hash, out[i], true);
      left--;
    }
  }
  for (int32_t i = 0; i < call->n_in; i++) {
    if (call->in[i] != NULL && left > 0) {
      hash = stirred_tensor(hash, call->in[i], false);
      left--;
    } else if (call->in[i] != NULL) {
      more++;
    }
  }
  return more == 0 ? hash : stirred(hash, more);
}

/* The hash of the words of a call, of which none is written down: it is a third of what the shapes
** of an event cost, and almost every call was seen before.  The same tensors as in key_of. */
static inline uint64_t hash_of(const rg_call *call, rg_tensor *const *out)
{
  int32_t visible = visible_of(call);
  uint64_t hash = FIRST_HASH;

  if (visible + call->n_in > KEY_TENSORS) {
    return hash_of_many(call, out, visible);
  }
  for (int32_t i = 0; i < visible; i++) {
    if (out[i] != NULL) {
      hash = stirred_tensor(hash, out[i], true);
    }
  }
  for (int32_t i = 0; i < call->n_in; i++) {
    if (call->in[i] != NULL) {
      hash = stirred_tensor(hash, call->in[i], false);
    }
  }
  return hash;
}

static inline uint64_t upper_bits(uint64_t hash, int32_t bits)
{
  return hash >> (64 - bits);
}

/* Keys are some words long: shorter than it takes to find out how best to compare them. */
static bool is_same(const int64_t *a, const int64_t *b, int64_t n)
{
  for (int64_t i = 0; i < n; i++) {
    if (a[i] != b[i]) {
      return false;
    }
  }
  return true;
}

/* Caller holds the lock.  -1: no memory; MANY. */
static int32_t find_or_add(const int64_t *key, int64_t n, uint64_t hash)
{
  uint64_t at = upper_bits(hash, ROOM_BITS);

  if (table == NULL) {
    table = rg_host_zeroed(MOST_SHAPES * sizeof(*table));
    by_hash = rg_host_zeroed(ROOM * sizeof(*by_hash));
    if (table == NULL || by_hash == NULL) {
      rg_host_free(table);
      rg_host_free(by_hash);
      table = NULL;
      return -1;
    }
  }
  for (; by_hash[at] != 0; at = (at + 1) % ROOM) {
    const shapes *s = &table[by_hash[at] - 1];

    if (s->n == n && is_same(s->key, key, n)) {
      return by_hash[at] - 1;
    }
  }
  if (n_shapes == MOST_SHAPES) {
    return MANY;
  }
  int64_t *copy = rg_host_alloc((size_t)n * sizeof(*key));

  if (copy == NULL) {
    return -1;
  }
  memcpy(copy, key, (size_t)n * sizeof(*key));
  table[n_shapes] = (shapes){ .key = copy, .n = n };
  by_hash[at] = ++n_shapes;
  return n_shapes - 1;
}

/*
** Combinations that this thread has seen, in the order in which they came first.  Programs repeat
** themselves: behind one comes mostly the one that stands behind it, in the same cache line or the
** next, while all that is computed between two events has taken the caches.  Any other is found by
** the upper bits of its hash.  Two that differ have one hash of 64 bits never, in all likelihood: a
** text in a table would be wrong then.
*/
enum { SEEN_BITS = 8, SEEN = 1 << SEEN_BITS };
static _Thread_local struct {
  uint64_t hash;
  int64_t id_and_one; /* 0: nothing is here */
} seen[SEEN];
static _Thread_local uint8_t seen_at[SEEN]; /* by hash: where it may stand */
static _Thread_local uint8_t expected;      /* where what comes next may stand */
static _Thread_local uint8_t first_free;    /* or the one that came first */

static bool is_seen(uint8_t at, uint64_t hash)
{
  return seen[at].hash == hash && seen[at].id_and_one != 0;
}

/* Of a call whose hash this thread has not seen lately: where it stands then. */
static uint8_t see(const rg_call *call, rg_tensor *const *out, uint64_t hash)
{
  int64_t key[KEY_WORDS];
  int64_t n = key_of(call, out, key);
  int32_t id;
  uint8_t at;

  rg_spin_enter(&lock);
  id = find_or_add(key, n, hash);
  rg_spin_leave(&lock);
  at = seen_at[upper_bits(hash, SEEN_BITS)] = first_free++;
  seen[at].hash = hash;
  seen[at].id_and_one = (int64_t)id + 1; /* of one for which there was no memory again nothing */
  return at;
}

int32_t rg_shapes_of(const rg_call *call, rg_tensor *const *out)
{
  uint64_t hash = hash_of(call, out);
  uint8_t at = expected;

  if (!is_seen(at, hash)) {
    at = seen_at[upper_bits(hash, SEEN_BITS)];
  }
  if (!is_seen(at, hash)) {
    at = see(call, out, hash);
  }
  expected = (uint8_t)(at + 1);
  return (int32_t)(seen[at].id_and_one - 1);
}

/* Caller holds the lock. */
static void write_text(const shapes *s, char *text)
{
  bool results = false;
  char one[96];
  size_t used = 0;

  text[0] = '\0';
  for (int64_t i = 1; i < s->n; i += 1 + (s->key[i] >> 8 & 0xff)) {
    int32_t dtype = (int32_t)(s->key[i] & 0xff);
    bool result = s->key[i] >> 16 != 0;
    const char *before = i == 1 ? "" : " ";

    if (result && !results) {
      used += (size_t)snprintf(text + used, TEXT_BYTES - used, s->key[0] > 0 ? " and %d more" : "",
                               (int)s->key[0]);
      before = i == 1 ? "-> " : " -> ";
      results = true;
    }
    used += (size_t)snprintf(
        text + used, TEXT_BYTES - used, "%s%s%s", before, rg_dtype_name(dtype),
        rg_shape_text(&s->key[i + 1], (int32_t)(s->key[i] >> 8 & 0xff), one, sizeof(one)));
  }
  if (!results && s->key[0] > 0) {
    (void)snprintf(text + used, TEXT_BYTES - used, " and %d more", (int)s->key[0]);
  }
}

const char *rg_shapes_text(int32_t id)
{
  const char *text = id == MANY ? "(too many shapes)" : "";

  rg_spin_enter(&lock);
  if (id >= 0 && id < n_shapes) {
    if (table[id].text == NULL) {
      table[id].text = rg_host_alloc(TEXT_BYTES);
      if (table[id].text != NULL) {
        write_text(&table[id], table[id].text);
      }
    }
    text = table[id].text != NULL ? table[id].text : "";
  }
  rg_spin_leave(&lock);
  return text;
}

/* -- Names ---------------------------------------------------------------------------- */

/* The device that has a range open, which its call did not end because it failed; 0: none. */
static _Thread_local int32_t named;

static void name_ends(void)
{
  if (named != RG_CPU) {
    rg_device_named(named, NULL);
    named = RG_CPU;
  }
}

int32_t rg_call_names(int32_t on)
{
  int32_t before = (rg_ring_on & RG_RING_NAMED) != 0;

  name_ends();
  rg_ring_on = on != 0 ? rg_ring_on | RG_RING_NAMED : rg_ring_on & ~(uint32_t)RG_RING_NAMED;
  return before;
}

/* -- Events --------------------------------------------------------------------------- */

enum { ONLY_NAMED = INT32_MAX }; /* with no event: a serial that no ring comes to */

int64_t rg_observe_begin(const rg_call *call, int32_t kind)
{
  if (rg_ring_probe != NULL) {
    rg_ring_probe->at(rg_ring_probe, NULL);
  }
  int64_t begun = rg_ring_begin(kind, call->device, call->op->name);

  if ((rg_ring_on & RG_RING_NAMED) != 0 && kind == RG_EVENT_OP) {
    name_ends();
    if (call->device != RG_CPU) {
      rg_device_named(call->device, call->op->name);
      named = call->device;
    }
    begun = begun >= 0 ? begun : (int64_t)ONLY_NAMED << 16;
  }
  if ((rg_ring_on & RG_RING_TRACED) != 0) {
    rg_activity_asked(call->device, begun);
  }
  return begun;
}

/* The event that ends, told what did the work; NULL: nobody kept it. */
static rg_noted *ended(int64_t begun, const rg_call *call, const char *path)
{
  rg_noted *event = rg_ring_end(begun);

  rg_ring_last = begun;
  name_ends();
  if ((rg_ring_on & RG_RING_TRACED) != 0) {
    rg_activity_asked(RG_CPU, -1);
  }
  if (event == NULL) {
    return NULL;
  }
  if (rg_ring_probe != NULL) {
    rg_ring_probe->at(rg_ring_probe, call->op->name);
  }
  event->path = path;
  return event;
}

void rg_observe_end(int64_t begun, const rg_call *call, rg_tensor *const *out, const char *path)
{
  rg_noted *event = ended(begun, call, path);

  if (event == NULL) {
    return;
  }
  rg_cost cost = call->op->cost != NULL ? call->op->cost(call) : (rg_cost){ 0 };

  /* The branch stands between the two numbers: side by side they go through the stack as one vector
  ** (gcc 12), whose load waits until all that the kernel has stored is in the caches. */
  event->flops = cost.flops;
  event->n_threads = rg_threads_for(cost.flops);
  event->bytes = cost.bytes;
  event->shapes = rg_shapes_of(call, out);
}

void rg_observe_step_end(int64_t begun, const rg_call *call, rg_tensor *const *out,
                         const char *path, int32_t step, rg_observed *known)
{
  rg_noted *event = ended(begun, call, path);

  if (event == NULL) {
    return;
  }
  if (!known->is_there) {
    known->cost = call->op->cost != NULL ? call->op->cost(call) : (rg_cost){ 0 };
    known->shapes = rg_shapes_of(call, out);
    known->is_there = true;
  }
  event->flops = known->cost.flops;
  event->n_threads = rg_threads_for(known->cost.flops); /* may be set anew between two replays */
  event->bytes = known->cost.bytes;
  event->step = step;
  event->shapes = known->shapes;
}
