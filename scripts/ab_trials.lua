-- SPDX-License-Identifier: MIT
--- How often is `ab` wrong while another process loads one core?  Identical candidates are to be
--- called in at most 12 of 100 (5 % with a binomial tolerance), candidates 5 % apart in at least 80
--- of 100, and never with the wrong sign.
--
--     ./ridge scripts/ab_trials.lua [--n 100] [--processes 6]
--
-- Ends with 1 when that does not hold.  With --processes 1 the candidates live in this process.

local ridge = require 'ridge'
local measure = require 'ridge.measure'

local opt = ridge.args {
  { 'n', 100, 'comparisons of each kind', min = 1, integer = true },
  { 'processes', 6, 'fresh processes of a comparison; 1: this one', min = 1, integer = true },
  { 'load', true, 'without another process that loads one core' },
}
ridge.set_num_threads(1)

-- Chains of 100 and of 105 calls over 8 KB: inside L1, so that where memory happens
-- to lie decides nothing. A graph's plan as it was recorded: a capture makes one call of all.
local function identical()
  local r = require 'ridge'
  r.set_num_threads(1)
  local x = r.ones(32, 64)
  local function chain(n)
    return r.graph(function()
      local y
      for _ = 1, n do y = x:exp() end
      return y
    end):plan()
  end
  return chain(100), chain(100)
end

local function apart()
  local r = require 'ridge'
  r.set_num_threads(1)
  local x = r.ones(32, 64)
  local function chain(n)
    return r.graph(function()
      local y
      for _ = 1, n do y = x:exp() end
      return y
    end):plan()
  end
  return chain(100), chain(105)
end

local function compare(setup, seed)
  local protocol = { level = 'quick', quiet_ns = 0 }
  if opt.processes > 1 then
    return measure.ab { setup = setup, processes = opt.processes, seed = seed,
                        protocol = protocol }
  end
  local a, b = setup()
  return measure.ab { a = a, b = b, seed = seed, protocol = protocol }
end

-- A process that does nothing as fast as it can, and its number.
local function load_one_core()
  local pipe = io.popen "exec sh -c 'echo $$; exec >&-; while :; do :; done'"
  return pipe:read '*n', pipe
end

local function run(name, setup)
  local count = { faster = 0, slower = 0, equal = 0, open = 0, looks = 0, aa_fail = 0 }
  for i = 1, opt.n do
    if ridge.stopping() then error('interrupted', 0) end
    local found = compare(setup, 1000 * i)
    count[found.verdict] = count[found.verdict] + 1
    count.looks = count.looks + found.looks
    if found.aa_fail then count.aa_fail = count.aa_fail + 1 end
    if i % 10 == 0 then io.stderr:write(('%s %d of %d\n'):format(name, i, opt.n)) end
  end
  print(('%-10s slower %d, faster %d, equal %d, open %d of %d; %.1f looks, %d AA_FAIL'):format(
    name, count.slower, count.faster, count.equal, count.open, opt.n, count.looks / opt.n,
    count.aa_fail))
  return count
end

local pid, pipe
if opt.load then pid, pipe = load_one_core() end
local ok, same, different = pcall(function()
  return run('identical', identical), run('5 % apart', apart)
end)
if pid then
  os.execute(('kill %d'):format(pid))
  pipe:close()
end
if not ok then error(same, 0) end

-- 12 of 100: 5 % and a little more than three standard deviations of that many draws
local most = 0.05 * opt.n + 3.3 * math.sqrt(0.05 * 0.95 * opt.n)
local good = same.slower + same.faster <= most and different.faster == 0
  and different.slower >= 0.8 * opt.n
print(good and 'holds' or 'DOES NOT HOLD')
os.exit(good and 0 or 1)
