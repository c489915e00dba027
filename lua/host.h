/* SPDX-License-Identifier: MIT */
/*
** What the C files of the host share.  They build one Lua table, package.loaded["ridge.host"], each
** file its own part of it: embed.c the sources, terminal.c what the terminal is, interrupt.c
** Ctrl-C, editor.c the line editor, settings.c the flags of the command line, sample.c where Lua
** is, thread.c threads with a state of their own.  The last five exist in the program only; embed.c
** and terminal.c are also linked into ridge.so, the module that plain luajit loads.  worker.c has
** nothing to do with this table and is part of the library.
*/
#ifndef RIDGE_HOST_H
#define RIDGE_HOST_H

#include <stdio.h>

#include <lua.h>
#include <lauxlib.h>
#include <luajit.h>

/* One embedded file: its path ("ridge/nn/linear.lua") and its text in pieces, NULL at the end. */
typedef struct rg_embedded {
  const char *path;
  const char *const *pieces;
} rg_embedded;

/* Every embedded file, sorted by path; path is NULL at the end.  Written by scripts/embed.lua. */
extern const rg_embedded rg_embedded_files[];

/*
** Make package.loaded["ridge.host"] and the searcher of embedded modules, and leave the table on
** the stack.
**
** executable  1 in the program, 0 in ridge.so
** library     file that holds the core's symbols, or NULL if it is not known
*/
void rg_host_embed(lua_State *L, int executable, const char *library);

/* Each adds its functions to the table on top of the stack. */
void rg_host_terminal(lua_State *L);
void rg_host_interrupt(lua_State *L);
void rg_host_editor(lua_State *L);
void rg_host_settings(lua_State *L);
void rg_host_sample(lua_State *L);
void rg_host_thread(lua_State *L);

/* Start LuaJIT's profiler, by lines, without its timer: who calls sends SIGPROF, to this thread. */
void rg_host_profile(lua_State *L, luaJIT_profile_callback callback);

/* Let the handlers of signals run on an alternate stack. */
void rg_host_signal_stack(void);

/* After the profiler served other ends: in a session, let Ctrl-C stop compiled loops again. */
void rg_host_watch(lua_State *L);

/* From now on a Ctrl-C while nothing runs is kept for the prompt instead of ending the process. */
void rg_host_listen(void);

/* Where the line editor writes, or NULL while it was never opened. */
FILE *rg_host_editor_stream(void);

/* Presses of Ctrl-C since the program began. */
int rg_host_presses(void);

/* Around what writes in a session: a write that a press of Ctrl-C has ended is no lost output. */
void rg_host_cut_off(void);

/* Why not all that was printed has reached standard output; NULL: it has. */
const char *rg_host_lost(void);

/* The status to end with: 1, and one sentence, where it would be 0 and what was printed is lost. */
int rg_host_ended(int status);

/* What rg_host_wait came back for. */
enum { RG_WAIT_INPUT = 0, RG_WAIT_INTERRUPT = 1, RG_WAIT_SIGNAL = 2, RG_WAIT_FAILED = 3 };

/*
** Wait for input at the prompt.  A Ctrl-C meanwhile comes back as RG_WAIT_INTERRUPT, once; a
** signal that other handlers took as RG_WAIT_SIGNAL.  None is lost between looking and waiting.
*/
int rg_host_wait(int fd);

/*
** For the handler of a signal that is looked at behind rg_host_wait: nonzero in the main thread,
** whose wait it ends; another thread hands the signal on to that one.
*/
int rg_host_note(int number);

#endif
