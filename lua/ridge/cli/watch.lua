-- SPDX-License-Identifier: MIT
--- `ridge watch`: a sweep of another process as it fills in.

local stored = require 'ridge.cli.stored'
local plain = require 'ridge.plain'

local M = {}

M.summary = 'a sweep while it runs: ridge watch widths'
M.usage = 'ridge watch SWEEP [-x COLUMN] [-y COLUMN] [-z COLUMN] [--once] [--db FILE]'

local SPEC = {
  about = [[
In a terminal: how far the sweep is, what failed, and its map filling in, until it ends or Ctrl-C.
Anywhere else: a line each time something changed. Only reads; the sweep does not notice.

    ridge watch widths
    ridge watch widths --once                 # one look, and exit]],
  rest = 'SWEEP', most = 1,
  { 'x', '', 'column across', short = 'x' },
  { 'y', '', 'column upwards', short = 'y' },
  { 'z', '', 'column that colours', short = 'z' },
  { 'every', 1, 'seconds between two looks', min = 0.1, max = 3600 },
  { 'once', false, 'look once' },
  stored.DB,
}

local function set(text) return text ~= '' and (text:gsub('%.', '_')) or nil end

local function screen(st, sweep, opt, size, depth)
  local live = require 'ridge.sweep.live'
  local head, counts = live.summary(st, sweep)
  local lines = { head }
  local failed = live.failures(st, sweep, 3)
  local map = live.map(st, sweep, { columns = size.columns, depth = depth,
    lines = math.max(4, math.floor((size.lines - #failed - 6) / 2)), x = set(opt.x), y = set(opt.y),
    z = set(opt.z) })
  for _, line in ipairs(map) do lines[#lines + 1] = line end
  for _, line in ipairs(failed) do lines[#lines + 1] = line end
  return lines, counts
end

local function is_over(counts)
  return (counts.pending or 0) + (counts.running or 0) == 0
end

local function in_terminal(st, sweep, opt, depth)
  local progress, sleep = require 'ridge.sweep.progress', require('ridge.store.clock').sleep
  local height = 0
  while true do
    local size = progress.size(1)
    local lines, counts = screen(st, sweep, opt, size, depth)
    io.stdout:write(height > 0 and ('\27[%dA'):format(height) or '', '\27[J',
      table.concat(lines, '\n'), '\n')
    io.stdout:flush()
    height = #lines
    if opt.once or is_over(counts) then return 0 end
    if require('ridge').stopping() then return 130 end
    sleep(opt.every)
  end
end

local function in_lines(st, sweep, opt)
  local sleep, live = require('ridge.store.clock').sleep, require 'ridge.sweep.live'
  local before
  while true do
    local text, counts = live.summary(st, sweep)
    if text ~= before then
      plain.print(text, '\n')
      io.stdout:flush()
      before = text
    end
    if opt.once or is_over(counts) then return 0 end
    if require('ridge').stopping() then return 130 end
    sleep(opt.every)
  end
end

--- Watch.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('watch', SPEC, argv, 'read', function(opt, rest, st)
    if not rest[1] then
      return stored.fail('watch', 'a sweep is missing; ridge sweeps lists them')
    end
    local sweep = require('ridge.store.query').sweep(st, rest[1])
    local depth = require('ridge.plot.terminal').depth(require('ridge.host').is_terminal(1))
    if require('ridge.host').is_terminal(1) then return in_terminal(st, sweep, opt, depth) end
    return in_lines(st, sweep, opt)
  end)
end

return M
