-- SPDX-License-Identifier: MIT
--- Two revisions of ridge side by side: scripts/peers/bench.lua of this tree under the program of
--- each, in turn, and how long each takes to start.  A ratio above 1 says that this tree is faster.
--
--     git worktree add --detach ../before REVISION && make -C ../before
--     ./ridge scripts/peers/before_after.lua --tree ../before [--rounds 12] [--threads 1]
--
-- A round runs both programs, the first of them by turns; ratios are formed within the round, and
-- the interval is that of their median (measure/passes.lua), for each case and for the geometric
-- mean of all.

local C = require 'ridge.ffi.lib'
local passes = require 'ridge.measure.passes'
local ridge = require 'ridge'

local CASES = 'add_64,transpose_64,linear_64_b1,mlp_sgd,mlp_adam,lenet,block_adamw'
local STARTS = 20

local opt = ridge.args {
  { 'tree', '../before', 'the revision before, built' },
  { 'rounds', 12, 'how often each is run', min = 5, integer = true },
  { 'threads', 1, 'compute threads', min = 1, integer = true },
  { 'only', CASES, 'case names that begin with one of these, by comma' },
}

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

--- Microseconds of each case by its name, from one process; what fails there is missing.
local function run(tree)
  local program = quoted(tree .. '/ridge')
  local command = '%s scripts/peers/bench.lua --threads %d --only %s'
  local pipe = assert(io.popen(command:format(program, opt.threads, quoted(opt.only))))
  local us = {}
  for line in pipe:lines() do
    local name, value = line:match('"case": "([^"]+)", "us": ([%d.]+)')
    if name then us[name] = tonumber(value) end
  end
  assert(pipe:close())
  local before = tonumber(C.rg_clock_ns())
  for _ = 1, STARTS do assert(os.execute(program .. " -e '' > /dev/null") == 0) end
  us.start = (tonumber(C.rg_clock_ns()) - before) / STARTS / 1e3
  return us
end

local old, new, names, seen = {}, {}, {}, {}
for round = 1, opt.rounds do
  local first, second = old, new
  if round % 2 == 0 then first, second = new, old end
  for _, into in ipairs { first, second } do
    into[round] = run(into == old and opt.tree or '.')
    for name in pairs(into[round]) do
      if not seen[name] then seen[name], names[#names + 1] = true, name end
    end
  end
  io.stderr:write(('round %d of %d\n'):format(round, opt.rounds))
end
table.sort(names)

--- Microseconds of a case by round; nil where a round misses it.
local function rounds_of(side, name)
  local us = {}
  for round = 1, opt.rounds do
    us[round] = side[round][name]
    if not us[round] then return nil end
  end
  return us
end

local function row(name, before, after)
  local found = passes.ratio(after, before)
  local a, b = passes.interval(after).med, passes.interval(before).med
  print(('%-20s %12.3f %12.3f %8.3f  %.3f .. %.3f'):format(
    name, b, a, found.med, found.lo, found.hi))
end

print(('%-20s %12s %12s %8s  of %d rounds'):format(
  'case', 'before us', 'after us', 'ratio', opt.rounds))
local means = { old = {}, new = {} }
for round = 1, opt.rounds do means.old[round], means.new[round] = 0, 0 end
local n = 0
for _, name in ipairs(names) do
  local before, after = rounds_of(old, name), rounds_of(new, name)
  if before and after then
    row(name, before, after)
    n = n + 1
    for round = 1, opt.rounds do
      means.old[round] = means.old[round] + math.log(before[round])
      means.new[round] = means.new[round] + math.log(after[round])
    end
  else
    print(('%-20s not in every round of %s'):format(name, before and 'this tree'
      or after and opt.tree or 'either'))
  end
end
for _, side in pairs(means) do
  for round = 1, opt.rounds do side[round] = math.exp(side[round] / n) end
end
row(('geometric mean of %d'):format(n), means.old, means.new)
