-- SPDX-License-Identifier: MIT
--- What is believed of the libraries that ridge's kernels use, tried: a probe for every line of the
--- tables "What is believed of ..." in tests/sim/README.md, by its name there.
--
--     ./ridge scripts/gpu/beliefs.lua [--tiny] [--only NAME,...] [--seed N] [--list]
--
-- A line each: `held`, `FAILED: facts`, `look: facts` (nothing is wrong, but something is slower
-- than it was thought to be, or more is possible), `not shown: why`, `not timed`. The last line
-- counts them; exit code 1 if one FAILED.
--
-- Factors are whole numbers so small that sums are exact in any order: results are compared bit by
-- bit, for every algorithm that the library names and for the one that ridge chooses. Results and
-- gaps between lines hold NaN before.

local ffi = require 'ffi'
local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'

local lost = assert(loadfile((arg[0]:match '^(.*/)' or './') .. 'lost.lua'))()
local opt = ridge.args(lost.with {
  { 'tiny', false, 'sizes for the simulator' },
  { 'only', '', 'probes of these names, by comma' },
  { 'seed', 1, 'of all numbers', integer = true },
  { 'list', false, 'print the names of all probes and end' },
  { 'child', '', 'a part that needs a process of its own' },
})
local HERE = arg[0]:match '^(.*/)' or './'
local probes = {} -- names in order; run by name

--- A probe: run() returns facts (held), or calls belief.failed, .look or .missing.
local belief = { opt = opt, here = HERE, children = {} }

local Verdict = {}
local function verdict(word)
  return function(...)
    error(setmetatable({ word = word, facts = (...):format(select(2, ...)) }, Verdict), 0)
  end
end
belief.failed, belief.look = verdict 'FAILED', verdict 'look'
belief.missing, belief.untimed = verdict 'not shown', verdict 'not timed'

function belief.probe(name, run)
  assert(not probes[name], name)
  probes[#probes + 1], probes[name] = name, run
end

--- Where only a GPU can show it: times of the simulator say nothing.
function belief.times()
  if belief.simulated then belief.untimed 'no clock of the simulator says anything of a GPU' end
end

for _, part in ipairs { 'beliefs_products', 'beliefs_scaled', 'beliefs_choice', 'beliefs_dnn' } do
  assert(loadfile(HERE .. part .. '.lua'))(belief)
end

if opt.list then
  for _, name in ipairs(probes) do print(name) end
  os.exit(0)
end

local facts = ffi.new 'rg_device_facts'
if C.rg_device_facts_of(1, facts) ~= 0 then error(ffi.string(C.rg_error_message()), 0) end
belief.simulated = facts.simulated == 1
ridge.seed(opt.seed)

if opt.child ~= '' then
  local name, rest = opt.child:match '^([^:]*):?(.*)$'
  belief.children[name](rest)
  os.exit(0)
end

local chosen
for name in opt.only:gmatch '[^,]+' do
  if not probes[name] then error('there is no probe ' .. name .. '; --list prints them', 0) end
  chosen = chosen or {}
  chosen[name] = true
end

-- Where a nan goes in what a library does in one pass is its own business (core/ridge/device.h):
-- these are looked at and cannot fail, whatever else they compare is compared by others.
local UNPROMISED = { ['relu-nan'] = true, ['dnn-relu-nan'] = true, ['dnn-unseen-nan'] = true }

local WORDS = { 'held', 'FAILED', 'look', 'not shown', 'not timed' }
local count = {}
for i, word in ipairs(WORDS) do
  local n = opt.carried[i] or 0
  count[word] = n > 0 and n or nil
end
local modes = C.rg_device_modes_now()
for number, name in ipairs(probes) do
  if (not chosen or chosen[name]) and lost.wants(opt, number) then
    local before = { modes.vendor, modes.autotune, modes.deterministic, modes.tf32 }
    local ok, said = xpcall(probes[name], function(e)
      return getmetatable(e) == Verdict and e or { word = 'FAILED', facts = debug.traceback(e, 2) }
    end)
    modes.vendor, modes.autotune, modes.deterministic, modes.tf32 = unpack(before)
    local word, text = 'held', said or ''
    if not ok then word, text = said.word, said.facts end
    if word == 'FAILED' and UNPROMISED[name] and getmetatable(said) == Verdict then
      word, text = 'look', 'not promised: ' .. text
    end
    local gone = lost.why()
    if gone and word ~= 'FAILED' then word, text = 'FAILED', gone end
    count[word] = (count[word] or 0) + 1
    if word == 'held' then
      print(('%-16s held%s'):format(name, text ~= '' and ' (' .. text .. ')' or ''))
    else
      print(('%-16s %s: %s'):format(name, word, text))
    end
    io.flush()
    if gone and not lost.is_alone() then
      local carried = {}
      for i, w in ipairs(WORDS) do carried[i] = count[w] or 0 end
      lost.again(number)
      lost.go_on(number + 1, carried)
    end
    collectgarbage()
  end
end
local sums = {}
for _, word in ipairs(WORDS) do
  if count[word] then sums[#sums + 1] = ('%d %s'):format(count[word], word) end
end
print(table.concat(sums, ', '))
os.exit(count.FAILED and 1 or 0)
