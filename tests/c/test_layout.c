/* SPDX-License-Identifier: MIT */
/*
** Layouts of arenas: blocks that live at the same time lie apart, at random too; what is asked for
** otherwise than it was noted gets no place, nor what would meet a block in use.
*/
#include <stdint.h>

#include "base/layout.h"
#include "tap.h"

static uint32_t state = 12345;

static int64_t below(int64_t n)
{
  state = state * 1664525u + 1013904223u;
  return (int64_t)(state >> 8) % n;
}

static void lay_out(rg_slots *s)
{
  if (rg_slots_lay_out(s) != RG_OK) {
    ok(false, "there is memory for it");
  }
}

/* Do two blocks live at one time, and lie in one place? */
static bool meet(const rg_slot *a, const rg_slot *b)
{
  return a->offset >= 0 && b->offset >= 0 && a->from < b->to && b->from < a->to &&
         a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static int32_t n_meeting(const rg_slots *s)
{
  int32_t n = 0;

  for (int32_t i = 0; i < s->n; i++) {
    for (int32_t k = 0; k < i; k++) {
      n += meet(&s->at[i], &s->at[k]);
    }
  }
  return n;
}

/* Requests and returns at random; ids stand for where blocks lie. */
static void note(rg_slots *s, int32_t n)
{
  static char ids[400];
  int32_t live[400];
  int32_t n_live = 0;

  for (int32_t i = 0; i < n; i++) {
    while (n_live > 0 && below(3) == 0) {
      const int32_t k = (int32_t)below(n_live);

      rg_slots_gave(s, &ids[live[k]]);
      live[k] = live[--n_live];
    }
    rg_slots_took(s, &ids[i], 1 + below(1 << (4 + below(12))));
    live[n_live++] = i;
  }
  while (n_live > 1) { /* the last one stays in use */
    rg_slots_gave(s, &ids[live[--n_live]]);
  }
}

static void test_random(void)
{
  int32_t wrong = 0;
  int32_t unaligned = 0;
  int32_t short_of = 0;

  for (int32_t round = 0; round < 60; round++) {
    rg_slots s = { 0 };

    note(&s, 20 + (int32_t)below(300));
    lay_out(&s);
    wrong += n_meeting(&s);
    int64_t apart = 0;

    for (int32_t i = 0; i < s.n; i++) {
      apart += s.at[i].offset < 0 ? s.at[i].bytes : 0;
      unaligned += s.at[i].offset % 64 != 0 && s.at[i].offset >= 0;
      wrong += s.at[i].offset >= 0 && s.at[i].offset + s.at[i].bytes > s.total;
    }
    short_of += s.total + apart < s.live;
    rg_slots_end(&s);
  }
  is_int(wrong, 0, "blocks that live at the same time lie apart, and inside");
  is_int(unaligned, 0, "places are aligned");
  is_int(short_of, 0, "and no layout is smaller than what lives");
}

static void test_reuse(void)
{
  rg_slots s = { 0 };
  char ids[4] = { 0 };

  rg_slots_took(&s, &ids[0], 1000);
  rg_slots_took(&s, &ids[1], 64);
  rg_slots_gave(&s, &ids[0]);
  rg_slots_took(&s, &ids[2], 900);
  rg_slots_gave(&s, &ids[1]);
  rg_slots_gave(&s, &ids[2]);
  lay_out(&s);
  is_int(s.live, 1024 + 64, "what lives at one time");
  is_int(s.total, 1024 + 64, "a block lies where one was that is gone");
  is_int(s.at[2].offset, s.at[0].offset, "in its very place");
  rg_slots_end(&s);
}

/* A long chain, each block gone once the next one is made, beside one that lives all along. */
static void test_chain(void)
{
  enum { N = 200000 };
  static char ids[N + 1];
  rg_slots s = { 0 };
  int32_t wrong = 0;

  rg_slots_took(&s, &ids[N], 640);
  for (int32_t i = 0; i < N; i++) {
    rg_slots_took(&s, &ids[i], 64 * (1 + i % 3));
    if (i > 0) {
      rg_slots_gave(&s, &ids[i - 1]);
    }
  }
  rg_slots_gave(&s, &ids[N - 1]);
  rg_slots_gave(&s, &ids[N]);
  lay_out(&s);
  ok(!s.failed, "two hundred thousand blocks of which two live at a time are laid out");
  is_int(s.live, 640 + 64 * 5, "what lives at one time");
  is_int(s.total, 640 + 64 * 6, "and where it lies");
  for (int32_t i = 1; i < s.n; i++) {
    wrong += meet(&s.at[0], &s.at[i]) + (i > 1 && meet(&s.at[i - 1], &s.at[i]));
  }
  is_int(wrong, 0, "neighbours lie apart");
  rg_slots_end(&s);
}

/* Many that live at the same time are held against all: the other way to the same places. */
static void test_crowd(void)
{
  enum { N = 399 };
  static char ids[N];
  rg_slots s = { 0 };
  int64_t bytes = 0;

  for (int32_t i = 0; i < N; i++) {
    const int64_t size = 64 * (1 + below(40));

    bytes += size;
    rg_slots_took(&s, &ids[i], size);
  }
  for (int32_t i = 0; i < N; i++) { /* each gives room to another of its size */
    const int64_t size = s.at[i].bytes;

    rg_slots_gave(&s, &ids[i]);
    rg_slots_took(&s, &ids[i], size);
  }
  for (int32_t i = 0; i < N; i++) {
    rg_slots_gave(&s, &ids[i]);
  }
  lay_out(&s);
  is_int(n_meeting(&s), 0, "a crowd lies apart");
  is_int(s.total, bytes, "in no more than lives at one time");
  rg_slots_end(&s);
}

/* Some hundred at a time, that come and go: more than are held against each other one by one. */
static void test_coming_and_going(void)
{
  enum { N = 1200, LIVE = 100 };
  static char ids[N];
  int32_t live[LIVE + 1];
  int32_t n_live = 0;
  rg_slots s = { 0 };

  for (int32_t i = 0; i < N; i++) {
    rg_slots_took(&s, &ids[i], 64 * (1 + below(40)));
    live[n_live++] = i;
    if (n_live > LIVE) {
      const int32_t k = (int32_t)below(n_live);

      rg_slots_gave(&s, &ids[live[k]]);
      live[k] = live[--n_live];
    }
  }
  while (n_live > 0) {
    rg_slots_gave(&s, &ids[live[--n_live]]);
  }
  lay_out(&s);
  is_int(n_meeting(&s), 0, "blocks that come and go lie apart");
  ok(s.total <= s.live + s.live / 4, "in little more than lives at one time");
  rg_slots_end(&s);
}

/* What is never given back has a place where it would cost much beside, else a block of its own. */
static void test_kept(void)
{
  for (int32_t large = 0; large < 2; large++) {
    rg_slots s = { 0 };
    char ids[3] = { 0 };

    rg_slots_took(&s, &ids[0], 64000);
    rg_slots_took(&s, &ids[1], 64000);
    rg_slots_gave(&s, &ids[0]);
    rg_slots_took(&s, &ids[2], large == 1 ? 64000 : 640);
    rg_slots_gave(&s, &ids[1]);
    lay_out(&s);
    is_int(s.at[2].offset >= 0, large, "a large one is laid out, a small one lies apart");
    is_int(s.total, 128000, "in as much as lives at one time");
    rg_slots_end(&s);
  }
}

/* A layout of three blocks in a memory of its own. */
static void laid_out(rg_slots *s, char *memory)
{
  char ids[3] = { 0 };

  *s = (rg_slots){ 0 };
  rg_slots_took(s, &ids[0], 100);
  rg_slots_gave(s, &ids[0]);
  rg_slots_took(s, &ids[1], 100);
  rg_slots_gave(s, &ids[1]);
  rg_slots_took(s, &ids[2], 500);
  rg_slots_gave(s, &ids[2]);
  lay_out(s);
  s->base = memory;
}

static void test_obeying(void)
{
  static char memory[4096];
  rg_slots s;
  char *x;

  laid_out(&s, memory);
  x = rg_slots_place(&s, 100);
  ok(x == memory, "the first request has its place");
  ok(rg_slots_return(&s, x), "which is known when it comes back");
  ok(rg_slots_place(&s, 90) == memory, "the next one too, and sizes are rounded");
  ok(rg_slots_place(&s, 500) == NULL, "what would meet a block in use has none");
  ok(!rg_slots_return(&s, memory + s.total), "what lies elsewhere is none of it");
  ok(rg_slots_place(&s, 100) == NULL, "nor has what was not noted");
  rg_slots_end(&s);
  laid_out(&s, memory);
  ok(rg_slots_place(&s, 300) == NULL, "a request of another size has none");
  ok(rg_slots_place(&s, 100) == NULL, "and nor has any behind it");
  rg_slots_end(&s);
}

/* What is nothing has a place of its own, too: its address tells it from others. */
static void test_nothing(void)
{
  static char memory[256];
  rg_slots s = { 0 };
  char ids[3] = { 0 };

  for (int32_t i = 0; i < 3; i++) {
    rg_slots_took(&s, &ids[i], i == 1 ? 64 : 0);
  }
  for (int32_t i = 0; i < 3; i++) {
    rg_slots_gave(&s, &ids[i]);
  }
  lay_out(&s);
  is_int(s.total, 192, "three blocks lie apart, of which two hold nothing");
  s.base = memory;
  for (int32_t i = 0; i < 3; i++) {
    ok(rg_slots_place(&s, i == 1 ? 64 : 0) == memory + s.at[i].offset, "each in its place");
  }
  rg_slots_end(&s);
}

/* What comes back was perhaps asked for before anybody noted, or before there was memory. */
static void test_unknown(void)
{
  static char memory[256];
  rg_slots s = { 0 };
  char ids[3] = { 0 };

  rg_slots_took(&s, &ids[0], 64);
  rg_slots_took(&s, &ids[1], 64);
  rg_slots_gave(&s, &ids[2]);
  is_int(s.n_open, 2, "what was not noted when it was asked for is not given back");
  ok(!rg_slots_return(&s, &ids[0]), "while notes are taken nothing lies in the layout");
  is_int(s.n_open, 2, "and nothing is given back by that");
  rg_slots_gave(&s, &ids[0]);
  is_int(s.n_open, 1, "what was noted is");
  is_int(s.at[0].to, 3, "at its time: returns count that were noted");
  rg_slots_gave(&s, &ids[1]);
  lay_out(&s);
  ok(!rg_slots_return(&s, memory), "nor does anything before it has memory");
  rg_slots_end(&s);
}

int main(void)
{
  test_random();
  test_reuse();
  test_chain();
  test_crowd();
  test_coming_and_going();
  test_kept();
  test_obeying();
  test_nothing();
  test_unknown();
  return done();
}
