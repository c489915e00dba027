-- SPDX-License-Identifier: MIT
--- `ridge watch`: a sweep of another process as it fills in, or a run as it goes on.

local colour = require 'ridge.show.colour'
local stored = require 'ridge.cli.stored'
local plain = require 'ridge.plain'

local M = {}

M.summary = 'a sweep or a run while it goes on: ridge watch widths'
M.usage = 'ridge watch SWEEP|FOLDER [-x COLUMN] [-y COLUMN] [-z COLUMN] [--once] [--db FILE]'

local SPEC = {
  about = [[
In a terminal: how far the sweep is, how long it takes yet at the rate since this began to look,
what failed, and its map filling in, until it ends or Ctrl-C. Anywhere else: a line each time
something changed. Only reads; the sweep does not notice.

    ridge watch widths
    ridge watch widths --once                 # one look, and exit
    ridge watch runs/one                      # a run that writes event files: ridge.monitor

Of a run: its step, losses, rate, memory, how busy the machine is, what is left, and its curves.
Where its process is gone, and has told no end (monitor:close() does), that is said: status 1.]],
  rest = 'SWEEP|FOLDER', most = 1,
  { 'x', '', 'column across', short = 'x' },
  { 'y', '', 'column upwards', short = 'y' },
  { 'z', '', 'column that colours', short = 'z' },
  { 'every', 1, 'seconds between two looks', min = 0.1, max = 3600 },
  { 'once', false, 'look once' },
  stored.DB,
}

local function set(text) return text ~= '' and (text:gsub('%.', '_')) or nil end

-- A function that says how long it will take yet: ' · 1:15 left', or nothing.
local function eta(st, sweep)
  local live, clock = require 'ridge.sweep.live', require 'ridge.store.clock'
  local duration, first = require('ridge.sweep.progress').duration, nil
  return function()
    local at_s, done, total = clock.seconds(), live.done(st, sweep)
    first = first or { done = done, at_s = at_s }
    local s = live.left(first, done, total, at_s)
    return s and (' · %s left'):format(duration(s)) or ''
  end
end

-- As many lines as it says, each of which is one of the terminal's: what is drawn again begins so
-- many lines above.
local function screen(st, sweep, opt, size, depth, left)
  local live, cut = require 'ridge.sweep.live', require('ridge.show.columns').cut
  local head, counts = live.summary(st, sweep)
  local lines = { cut(head .. left(), size.columns) }
  local failed = live.failures(st, sweep, 3)
  local map = live.map(st, sweep, { columns = size.columns, depth = depth,
    lines = math.max(4, math.floor((size.lines - #failed - 6) / 2)), x = set(opt.x), y = set(opt.y),
    z = set(opt.z) })
  for _, line in ipairs(map) do lines[#lines + 1] = line end
  for _, line in ipairs(failed) do lines[#lines + 1] = cut(line, size.columns) end
  for i = #lines, math.max(1, size.lines - 1) + 1, -1 do lines[i] = nil end
  return lines, counts
end

local function is_over(counts)
  return (counts.pending or 0) + (counts.running or 0) == 0
end

-- The lines in place of those that were drawn before; the next `before`. The cursor need not stand
-- where a line begins: a terminal shows ^C where it is typed. One of another size has broken its
-- lines anew, and none knows how many there are: it is cleared.
local function draw(lines, before, size)
  local same = before and before.columns == size.columns
  io.stdout:write(same and before.height > 0 and ('\r\27[%dA'):format(before.height)
    or before and not same and '\27[H' or '\r', '\27[J', table.concat(lines, '\n'), '\n')
  io.stdout:flush()
  return { height = #lines, columns = size.columns }
end

local function in_terminal(st, sweep, opt, depth)
  local progress, sleep = require 'ridge.sweep.progress', require('ridge.store.clock').sleep
  local drawn, left = nil, eta(st, sweep)
  while true do
    local size = progress.size(1)
    local lines, counts = screen(st, sweep, opt, size, depth, left)
    drawn = draw(lines, drawn, size)
    if opt.once or is_over(counts) then return 0 end
    if require('ridge').stopping() then return 130 end
    sleep(opt.every)
  end
end

local function in_lines(st, sweep, opt)
  local sleep, live = require('ridge.store.clock').sleep, require 'ridge.sweep.live'
  local before, left = nil, eta(st, sweep)
  while true do
    local text, counts = live.summary(st, sweep)
    local rest = left()
    if text ~= before then
      plain.print(text, rest, '\n')
      io.stdout:flush()
      before = text
    end
    if opt.once or is_over(counts) then return 0 end
    if require('ridge').stopping() then return 130 end
    sleep(opt.every)
  end
end

-- A run: its screen in a terminal, else a line each time that something came.
local function watch_run(run, opt, terminal)
  local progress, sleep = require 'ridge.sweep.progress', require('ridge.store.clock').sleep
  local first, drawn, changed = true, nil, run:look()
  repeat
    if terminal then
      local size = progress.size(1)
      drawn = draw(run:screen(size), drawn, size)
    elseif changed or first or run.gone then
      plain.print(run:text(), '\n')
    end
    first = false
    io.stdout:flush()
    if run.over or run:is_still() then return 0 end
    if run.gone then return 1 end
    if opt.once then return 0 end
    if require('ridge').stopping() then return 130 end
    sleep(opt.every)
    changed = run:look()
  until false
end

-- Runs in the folders of a folder: their paths.
local function runs_in(folder)
  local list, read = {}, require 'ridge.tensorboard.read'
  for _, name in ipairs(require('ridge.host').directory(folder) or {}) do
    local path = folder:gsub('/+$', '') .. '/' .. name:gsub('/$', '')
    if read.find(path) then list[#list + 1] = path end
  end
  table.sort(list)
  return list
end

-- What a word names: a folder of a run, where it is one; nil. Without a stroke it may be a sweep's.
local function run_of(word)
  local run = require('ridge.monitor.live').open(word)
  if run or not word:find '/' then return run end
  local runs = runs_in(word)
  require('ridge.blame').raise(('watch: there is no event file in %s%s'):format(word,
    #runs > 0 and ', but in ' .. table.concat(runs, ', ', 1, math.min(5, #runs))
    .. (#runs > 5 and (' and %d more'):format(#runs - 5) or '') or ''), 'EARG')
end

local function as_run(opt, word, terminal)
  local run = run_of(word)
  if not run then return nil end
  local ok, status = pcall(watch_run, run, opt, terminal)
  run:close()
  if not ok then error(status, 0) end
  return status
end

local function watch_sweep(st, name, opt)
  local sweep = require('ridge.store.query').sweep(st, name)
  local terminal = colour.moves(require('ridge.host').is_terminal(1))
  local depth = require('ridge.plot.terminal').depth(terminal)
  if terminal then return in_terminal(st, sweep, opt, depth) end
  return in_lines(st, sweep, opt)
end

--- Watch.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('watch', SPEC, argv, nil, function(opt, rest)
    if not rest[1] then
      return stored.fail('watch', 'a sweep is missing; ridge sweeps lists them')
    end
    local status = as_run(opt, rest[1], colour.moves(require('ridge.host').is_terminal(1)))
    if status then return status end
    local store = require 'ridge.store'
    local st = store.open(opt.db ~= '' and opt.db or store.default_path(), 'read')
    local ok, result = pcall(watch_sweep, st, rest[1], opt)
    st:close()
    if not ok then error(result, 0) end
    return result
  end)
end

return M
