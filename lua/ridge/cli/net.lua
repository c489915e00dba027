-- SPDX-License-Identifier: MIT
--- `ridge net`: what all-reduces take between ranks.

local C = require 'ridge.ffi.lib'
local by_ranks = require 'ridge.cli.by_ranks'
local plain = require 'ridge.plain'
local stored = require 'ridge.cli.stored'

local M = {}

M.summary = 'what all-reduces between processes take: ridge net -n 2..8'
M.usage = 'ridge net [-n RANKS] [options]'

local SPEC = {
  about = [[
Starts ranks on this machine with ridge launch, times all-reduces of several sizes, and keeps for
each number of ranks alpha (the time of an empty one), 1/beta (bytes a second of a long one), both
with intervals, and the times themselves, as the sweep `net` of the database. Each round has all
sizes; medians of rounds, intervals over several starts of the ranks, with what other minutes differ
by. ridge scale reads it.

    ridge net -n 2..8
    ridge net --show
    ridge query net 'ranks, alpha_us, gb_s, us_65536'

It says what this machine does, whose memory messages go through. Ranks beyond its processors share
them, which is in what is measured.]],
  rest = '', most = 0,
  { 'n', '2', 'numbers of ranks: 2..8, 2..16*2 or 2,4', short = 'n' },
  { 'starts', 5, 'how often ranks are started; below 5 there is no interval', integer = true,
    min = 1, max = 100 },
  { 'rounds', 9, 'rounds of all sizes in each start', integer = true, min = 1, max = 10000 },
  { 'sizes', {}, 'bytes of messages, 4 to 1e9; eight from 4 to 4 MiB when left out' },
  { 'show', false, 'what is stored, and measure nothing' },
  stored.DB,
}

local function numbers_of(opt)
  local space = require('ridge.sweep.written').parameters { 'n=' .. opt.n }
  local ranks = space.n
  for _, n in ipairs(ranks) do
    if type(n) ~= 'number' or n % 1 ~= 0 or n < 2 or n > 512 then
      return nil, nil, ('-n: %s is no number of ranks, 2 to 512'):format(tostring(n))
    end
  end
  local sizes = {}
  for i, text in ipairs(opt.sizes) do
    local bytes = tonumber(text)
    if not bytes or bytes % 4 ~= 0 or bytes < 4 or bytes > 1e9 then
      return nil, nil, ("--sizes: '%s' is no multiple of 4 from 4 to 1e9"):format(text)
    end
    sizes[i] = bytes
  end
  table.sort(sizes)
  if #sizes == 1 then return nil, nil, '--sizes: a line needs two of them' end
  return ranks, #sizes > 0 and sizes or require('ridge.scaling.network').SIZES
end

-- Start ranks, and what the first of them wrote.
local function launch(ranks, sizes, rounds)
  local words = { tostring(rounds) }
  for _, bytes in ipairs(sizes) do words[#words + 1] = ('%d'):format(bytes) end
  return by_ranks.run(ranks, "require('ridge.scaling.ranks').main(arg)\n", words)
end

local function show(path)
  local store, network = require 'ridge.store', require 'ridge.scaling.network'
  local st = store.open(path, 'read')
  local ok, list, elsewhere = pcall(network.stored, st)
  st:close()
  if not ok then error(list, 0) end
  if #list == 0 then
    return stored.fail('net', ('nothing is stored of it%s: ridge net -n 2..8'):format(
      network.elsewhere(elsewhere)))
  end
  plain.print(network.text(list, tonumber(C.rg_processors())), '\n')
end

--- Measure, keep and show.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('net', SPEC, argv, nil, function(opt)
    local store, network = require 'ridge.store', require 'ridge.scaling.network'
    local path = opt.db ~= '' and opt.db or store.default_path()
    if opt.show then return show(path) end
    local ranks, sizes, wrong = numbers_of(opt)
    if wrong then return stored.fail('net', wrong) end
    local summary = network.sweep { ranks = ranks, sizes = sizes, starts = opt.starts,
      rounds = opt.rounds, launch = launch, processors = tonumber(C.rg_processors()),
      source = require('ridge.sweep.minutes').here(path) }
      :run { db = path, new = true, calibrate = false }
    if summary.failed > 0 then
      return stored.fail('net', ('ranks failed: ridge query %s \'ranks, reason\''):format(
        summary.name))
    end
    return show(path)
  end)
end

return M
