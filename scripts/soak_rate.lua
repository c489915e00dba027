-- SPDX-License-Identifier: MIT
-- What a sweep costs beside what it measures: 10,000 trials (or the first argument) that only
-- record a number, and how the rate of the last tenth stands to that of the first.
--
--     ./ridge scripts/soak_rate.lua [TRIALS [FOLDER]]
--
-- FOLDER is where the database lies for so long (/tmp when left out). The time is that of the whole
-- run between two trials: claims, commits, collections; a lease is taken, but not the one for which
-- others on this machine wait. Ends with 1 when a trial costs more than 2 ms in the first or the
-- last tenth; a shared disk can be the reason, so look at it in /dev/shm too.

local clock = require 'ridge.store.clock'
local lease = require 'ridge.sweep.lease'
local ridge = require 'ridge'

local LIMIT_MS = 2

local trials = tonumber(arg[1]) or 10000
local path = ('%s/ridge_rate_%d.db'):format(arg[2] or '/tmp', clock.pid())
local at = {}

local own = ('rate-%d'):format(clock.pid())
local lab = setmetatable({ lease = function() return lease.open(own) end },
  { __index = require 'ridge.sweep.lab' })

local sw = ridge.sweep 'rate' {
  space = { k = ridge.range(1, trials) },
  measure = function(p, _, m)
    at[#at + 1] = clock.seconds()
    m:metric('v', p.k)
  end,
}
local ok, err = pcall(sw.run, sw, { db = path, progress = false, calibrate = false,
  lab = lab })
for _, suffix in ipairs { '', '-wal', '-shm', '.lock' } do os.remove(path .. suffix) end
for _, suffix in ipairs { '', '.gate' } do os.remove(lease.folder() .. '/' .. own .. suffix) end
if not ok then error(err, 0) end

local function ms(first, last) return (at[last] - at[first]) / (last - first) * 1e3 end
local tenth = math.floor(trials / 10)
local first, last = ms(1, tenth), ms(trials - tenth, trials)
print(('%d trials, %.2f ms each; first tenth %.2f, last tenth %.2f, rate kept: %.0f %%'):format(
  #at, ms(1, trials), first, last, 100 * first / last))
os.exit(math.max(first, last) <= LIMIT_MS and 0 or 1)
