-- SPDX-License-Identifier: MIT
-- What one attempt produced: timings with all their samples, and metrics.

local blame = require 'ridge.blame'
local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local sqlite = require 'ridge.store.sqlite'

local M = {}

--- How samples are packed: durations as float32 ns (7 digits, more than any clock has), offsets
--- from t0 as float64 ns, marks as one byte a sample.
M.ENCODING = 'dur:f32ns at:f64ns mark:u8'

local TYPE = { dur = 'float', at = 'double', mark = 'uint8_t' }
local CODE = { dur = C.RG_F32, at = C.RG_F64, mark = C.RG_U8 }

local function pack(kind, list)
  local n = #list
  local array = ffi.new(TYPE[kind] .. '[?]', n)
  for i = 1, n do
    local value = list[i]
    array[i - 1] = value == true and 1 or value or 0
  end
  return ffi.string(array, n * ffi.sizeof(TYPE[kind]))
end

--- Read packed samples back.
---@param kind string 'dur', 'at' or 'mark'
---@param bytes string
---@return table list numbers
function M.unpack(kind, bytes)
  local n = math.floor(#bytes / ffi.sizeof(TYPE[kind]))
  local array, out = ffi.new('double[?]', math.max(1, n)), {}
  call.check(C.rg_doubles_from(bytes, n, CODE[kind], array))
  for i = 1, n do out[i] = array[i - 1] end
  return out
end

--- Flags as stored: sorted words.
---@param flags table|nil list of names
---@return string words
function M.flags(flags)
  local out = {}
  for i, flag in ipairs(flags or {}) do out[i] = flag end
  table.sort(out)
  return table.concat(out, ' ')
end

local TIMING = [[/* insert timing */ INSERT INTO timing(attempt_id,phase,clock,cache,n,n_eff,rounds,
  inner,warm_ns,warm_calls,min,p25,med,p75,p95,p99,max,mean,sd,mad,ci_lo,ci_hi,ci_level,ci_how,r1,
  drift,sentinel,foreign_share,steal_share,pressure_share,throttled,clock_hz,grade,flags,thresholds,
  stop,passes,procs,sd_between,sd_within,quiet,quiet_lo,quiet_hi,ratio,ratio_lo,ratio_hi,pass_med,
  pass_ratio,pass_flags,sd_minutes) VALUES(]] .. ('?'):rep(50, ',') .. ')'
local FIRST = [[/* insert first call */ INSERT INTO timing(attempt_id,phase,clock,cache,n,inner,
  min,med,max,mean) VALUES(?1,?2,?3,'first',1,1,?4,?4,?4,?4)]]
local SAMPLES = [[/* insert samples */ INSERT INTO samples(timing_id,enc,n,t0,dur,at,mark)
  VALUES((SELECT id FROM timing WHERE attempt_id=? AND phase=? AND clock=? AND cache=?),
  ?,?,?,?,?,?)]]

local function blob_of(kind, list) return list and sqlite.blob(pack(kind, list)) or nil end

--- The raw samples of a timing that has its row.
---@param db table
---@param attempt integer
---@param g table phase, clock, cache, t0 (ns), dur, at, mark
function M.samples(db, attempt, g)
  db:run(SAMPLES, attempt, g.phase, g.clock, g.cache, M.ENCODING, #g.dur, g.t0,
    blob_of('dur', g.dur), blob_of('at', g.at), blob_of('mark', g.mark))
end

local function timing(db, attempt, t)
  local r = t.result
  local clock, cache, host = r.clock or 'monotonic_raw', r.cache or 'warm', r.host or {}
  if not r.med or not r.n or not r.inner then
    blame.raise(('the timing of %s has no median, count or inner count'):format(t.phase), 'EBUG')
  end
  db:run(TIMING, attempt, t.phase, clock, cache, r.n, r.n_eff, r.rounds, r.inner, r.warm_ns,
    r.warm_calls, r.min, r.p25, r.med, r.p75, r.p95, r.p99, r.max, r.mean, r.sd, r.mad, r.ci_lo,
    r.ci_hi, r.ci_level, r.ci_how, r.r1, r.drift, r.sentinel, host.foreign, host.steal,
    host.pressure, host.throttled, r.clock_hz, r.grade, M.flags(r.flags), r.thresholds, r.stop,
    r.passes, r.procs, r.sd_between, r.sd_within, r.quiet, r.quiet_lo, r.quiet_hi, r.ratio,
    r.ratio_lo, r.ratio_hi, r.pass_med, r.pass_ratio, r.pass_flags, r.sd_minutes)
  if r.first_ns then db:run(FIRST, attempt, t.phase, clock, r.first_ns) end
  if r.samples and #r.samples > 0 then
    M.samples(db, attempt, { phase = t.phase, clock = clock, cache = cache, t0 = r.t0_ns,
      dur = r.samples, at = r.at, mark = r.mark })
  end
end

local SERIES = [[/* passes of a series */ SELECT a.id, a.pass, a.worker_id, a.inputs, a.left_bytes,
  a.began, a.turn, a.n, w.pid FROM main.attempt a JOIN main.worker w ON w.id = a.worker_id
  WHERE a.series = ? AND a.outcome = 'ok' ORDER BY a.pass]]
local OWN = [[/* timings of a pass */ SELECT g.phase, g.clock, g.cache, g.pass_med, g.pass_ratio,
  g.pass_flags, g.med, s.dur, s.at, s.mark, s.t0, g.inner, g.warm_calls
  FROM main.timing g LEFT JOIN main.samples s ON s.timing_id = g.id WHERE g.attempt_id = ?]]

--- The name of a timing among those of a pass.
---@param phase string
---@param cache string|nil 'warm' when left out
---@return string key
function M.key(phase, cache) return phase .. ' ' .. (cache or 'warm') end

--- The passes of a series, in their order.
---@param db table
---@param series string
---@return table passes each id (attempt), pass, worker_id, pid, inputs, left_bytes, began, turn,
---  and timings by M.key: med and ratio of that pass alone, flags (words), samples (dur, at, mark,
---  t0)
function M.passes(db, series)
  local list = db:query(SERIES, sqlite.blob(series))
  for _, pass in ipairs(list) do
    pass.timings = {}
    for _, g in ipairs(db:query(OWN, pass.id)) do
      pass.timings[M.key(g.phase, g.cache)] = { phase = g.phase, cache = g.cache,
        med = g.pass_med or g.med, ratio = g.pass_ratio, flags = g.pass_flags or '',
        inner = g.inner, warm_calls = g.warm_calls, t0 = g.t0,
        dur = g.dur and M.unpack('dur', g.dur) or {}, at = g.at and M.unpack('at', g.at),
        mark = g.mark and M.unpack('mark', g.mark) }
    end
  end
  return list
end

-- What the pass before had and this one did not make again.
local CARRY_METRICS = [[/* carry metrics */ INSERT OR IGNORE INTO metric(attempt_id,name,value,unit,
  better,how) SELECT ?1,name,value,unit,better,how FROM metric WHERE attempt_id=?2]]
local CARRY_CURVES = [[/* carry curves */ INSERT OR IGNORE INTO curve(attempt_id,name,step,value,
  t_ns) SELECT ?1,name,step,value,t_ns FROM curve WHERE attempt_id=?2]]

--- Add the rows of an attempt; the caller is inside a transaction.
---@param db table
---@param attempt integer attempt id
---@param outcome table timings (each phase and the result of ridge.measure.block), metrics (each
---  name, value, unit, better, how), curves (each name, points: step, value, t_ns), carry (an
---  attempt whose metrics and curves stand for those that this one has not)
function M.attempt(db, attempt, outcome)
  for _, t in ipairs(outcome.timings or {}) do timing(db, attempt, t) end
  for _, m in ipairs(outcome.metrics or {}) do
    -- SQLite has no NaN: the value is absent and `how` says so
    local nan = m.value ~= m.value
    db:run([[/* insert metric */ INSERT INTO metric(attempt_id,name,value,unit,better,how)
      VALUES(?,?,?,?,?,?)]], attempt, m.name, not nan and m.value or nil, m.unit, m.better,
      nan and 'nan' or m.how)
  end
  if outcome.carry then
    db:run(CARRY_METRICS, attempt, outcome.carry)
    if #(outcome.curves or {}) == 0 then db:run(CARRY_CURVES, attempt, outcome.carry) end
  end
  for _, c in ipairs(outcome.curves or {}) do
    for _, p in ipairs(c.points) do
      local finite = p.value == p.value and math.abs(p.value) < math.huge
      db:run([[/* insert curve */ INSERT INTO curve(attempt_id,name,step,value,t_ns)
        VALUES(?,?,?,?,?)]], attempt, c.name, p.step, finite and p.value or nil, p.t_ns)
    end
  end
end

return M
