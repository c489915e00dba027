-- SPDX-License-Identifier: MIT
--- `ridge trust`: what this machine can promise; measured for some minutes, stored, as a page and a
--- picture.

local args = require 'ridge.cli.args'
local stored = require 'ridge.cli.stored'
local plain = require 'ridge.plain'

local M = {}

M.summary = 'what this machine can promise: its states, and what processes differ by'
M.usage = 'ridge trust [--minutes 3] [--threads 2] [-o trust.png]'

local SPEC = {
  about = [[
Measures for some minutes what this machine can promise: which states it has and how long they last,
how far passes, fresh processes and layouts in memory lie apart for six kinds of work, and which
differences can therefore be told apart. What it finds is kept: calibrations and intervals from one
process (quick, %bench) use it, and so do the times of sweeps that take less than ten minutes: as
they are of this machine when it took ten minutes or more, with an assumed drift beside when it took
less. Use the machine meanwhile as you do when you measure.

    ridge trust --minutes 5 -o trust.png]],
  { 'minutes', 3, 'how long', min = 0.001, max = 600 },
  { 'smoke', false, 'five processes and small windows: shows that it works, stores nothing' },
  { 'threads', 0, 'compute threads; 0: those in use', integer = true, min = 0, max = 1024 },
  { 'o', '', 'write the picture to this PNG file', short = 'o', writes = 'file' },
  { 'db', '', 'database file; RIDGE_DB or results/ridge.db when left out' },
  { 'keep', true, 'print only, store nothing' },
  { 'as', 'text', 'what is printed', choices = { 'text', 'json' } },
}

local function print_json(summary, rows)
  local canonical = require 'ridge.store.canonical'
  local kinds = {}
  for i, k in ipairs(summary.kinds) do
    kinds[i] = { kind = k.kind, med_ns = k.found.med, lo_ns = k.found.lo, hi_ns = k.found.hi,
      quiet_ns = k.quiet and k.quiet.med, sd = k.sd, layout = k.layout, within = k.within,
      up = k.up, down = k.down, minutes = k.minutes, near_up = k.near_up, near_down = k.near_down }
  end
  plain.print(canonical.encode { version = 1, threads = summary.threads, processes = summary.n,
    seconds = summary.seconds, minutes = summary.minutes, up = summary.up, down = summary.down,
    states = summary.states.n,
    kinds = canonical.list(kinds), rows = canonical.list(rows) }, '\n')
end

local function picture(record, summary, path)
  local trust = require 'ridge.measure.trust'
  local text = trust.sentence(summary)
  require('ridge.plot').draw('trust', trust.points(record), { text = text }):save(path)
  plain.note(path, '\n')
end

local function measure(opt)
  local trust = require 'ridge.measure.trust'
  local function say(text) plain.note(text, '\n') end
  if opt.smoke then
    return trust.measure { minutes = 0.001, least = 5, window_ns = 2e5, progress = say }
  end
  return trust.measure { minutes = opt.minutes, progress = say }
end

--- Measure, store and print.
---@param argv string[]
---@return integer status
function M.main(argv)
  local opt, rest = args.read(SPEC, argv)
  if not opt and rest == 'help' then
    plain.print(args.help(SPEC, 'trust'), '\n')
    return 0
  elseif not opt then
    return stored.fail('trust', rest)
  elseif opt.o ~= '' and not opt.o:lower():find '%.png$' then -- before the work
    return stored.fail('trust', '-o: figures are PNG files, so the path must end in .png')
  end
  local trust = require 'ridge.measure.trust'
  if opt.threads > 0 then require('ridge.backend').set_threads(opt.threads) end
  local db = opt.db ~= '' and opt.db or nil
  local stores = opt.keep and not opt.smoke
  if stores then require('ridge.sweep.calibrated').may_keep(db) end -- before the work
  local record = measure(opt)
  local summary = trust.summary(record)
  local rows = trust.rows(summary)
  local kept, why = true, nil
  if stores then kept, why = pcall(require('ridge.sweep.calibrated').keep, rows, db) end
  -- on a disk that became full meanwhile, minutes of work are said all the same
  if opt.as == 'json' then
    print_json(summary, rows)
  else
    plain.print(trust.text(summary), '\n')
  end
  if not kept then error(why, 0) end
  if opt.o ~= '' then picture(record, summary, opt.o) end
  return 0
end

return M
