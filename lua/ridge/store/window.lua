-- SPDX-License-Identifier: MIT
-- Windows of a pass that is under way: what a worker that is killed has timed of it already.
--
-- Each goes into the worker's lock file as it ends, one write of a line into the page cache: a
-- transaction would bring the disk in between two windows. Whoever buries the worker makes rows of
-- them, of its lost attempt, and the attempt that takes this pass again begins with them. So a
-- process that dies loses the window that it was in. Those of its partner are kept beside them: the
-- ratio of the pass is formed of pairs of windows.

local record = require 'ridge.store.record'

local M = {}

--- Where in a worker's lock file they are, behind what else it says.
M.AT = 256

--- What a phase of the partner is called among the timings of a lost attempt.
---@param phase string
---@return string name
function M.of_partner(phase) return phase .. ' of its partner' end

local LINE = '%s %d %s %s %s %d %.17g %.9g %.17g %d ;\n'
local PATTERN = '^([wp]) (%d+) ([%a_][%w_]*) (%a+) (%S+) (%d+) (%S+) (%S+) (%S+) (%d+) ;$'

--- A window as a line.
---@param attempt integer
---@param w table phase, cache, clock, inner, t0 (ns), ns (of a call), at (ns since t0), mark;
---  partner: it is that of the point's partner
---@return string text
function M.line(attempt, w)
  return LINE:format(w.partner and 'p' or 'w', attempt, w.phase, w.cache, w.clock, w.inner, w.t0,
    w.ns, w.at, w.mark)
end

--- The windows in a text. What a shorter line left of an older one is not a whole line, or of
--- another attempt.
---@param text string
---@return table windows each with attempt
function M.parse(text)
  local out = {}
  for line in text:gmatch '([^\n]*)\n' do
    local kind, attempt, phase, cache, clock, inner, t0, ns, at, mark = line:match(PATTERN)
    if attempt then
      out[#out + 1] = { attempt = tonumber(attempt), phase = phase, cache = cache, clock = clock,
        inner = tonumber(inner), t0 = tonumber(t0), ns = tonumber(ns), at = tonumber(at),
        mark = tonumber(mark), partner = kind == 'p' or nil }
    end
  end
  return out
end

local INSERT = [[/* insert kept windows */ INSERT INTO timing(attempt_id,phase,clock,cache,n,inner,
  med) SELECT ?1,?2,?3,?4,?5,?6,?7 WHERE EXISTS(SELECT 1 FROM attempt WHERE id=?1
  AND worker_id=?8 AND outcome='running')]]

-- The windows of each phase and cache mode, in their order.
local function by_timing(windows)
  local groups, order = {}, {}
  for _, w in ipairs(windows) do
    local phase = w.partner and M.of_partner(w.phase) or w.phase
    local key = w.attempt .. ' ' .. record.key(phase, w.cache)
    local g = groups[key]
    if not g then
      g = { attempt = w.attempt, phase = phase, clock = w.clock, cache = w.cache,
        inner = w.inner, t0 = w.t0, dur = {}, at = {}, mark = {} }
      groups[key], order[#order + 1] = g, g
    end
    local n = #g.dur + 1
    g.dur[n], g.at[n], g.mark[n] = w.ns, w.t0 - g.t0 + w.at, w.mark
  end
  return order
end

--- Make rows of what a worker recorded, as long as its attempt is under way; within a transaction.
---@param db table
---@param worker integer
---@param text string what stands in its lock file from M.AT on
function M.keep(db, worker, text)
  for _, g in ipairs(by_timing(M.parse(text))) do
    if db:run(INSERT, g.attempt, g.phase, g.clock, g.cache, #g.dur, g.inner, g.dur[1], worker) == 1
    then
      record.samples(db, g.attempt, g)
    end
  end
end

--- Take the windows of an attempt away: one that is no longer to be gone on with.
M.DROP = '/* drop kept windows */ DELETE FROM timing WHERE attempt_id=?'

local KEPT = [[/* windows of lost attempts */ SELECT g.phase, g.cache, s.t0, s.dur, s.at, s.mark
  FROM main.attempt a JOIN main.timing g ON g.attempt_id = a.id
  JOIN main.samples s ON s.timing_id = g.id
  WHERE a.trial_id = ?1 AND a.outcome = 'lost' AND a.pass = ?2 AND a.env_id = ?3
    AND a.id < ?4 AND a.id > coalesce((SELECT max(id) FROM main.attempt WHERE trial_id = ?1
      AND outcome <> 'lost' AND id < ?4), 0) ORDER BY a.id, g.id]]

--- What processes that died while they took this pass of a trial had timed of it, under the same
--- conditions.
---@param db table
---@param claim table trial, attempt, pass
---@param env_id integer
---@return table kept by record.key, the partner's by that of M.of_partner: t0, dur, at, mark; empty
---  where there is nothing
function M.kept(db, claim, env_id)
  local out = {}
  for _, row in ipairs(db:query(KEPT, claim.trial, claim.pass, env_id, claim.attempt)) do
    local key = record.key(row.phase, row.cache)
    local own = out[key] or { t0 = row.t0, dur = {}, at = {}, mark = {} }
    out[key] = own
    local at, mark = record.unpack('at', row.at), record.unpack('mark', row.mark)
    for i, ns in ipairs(record.unpack('dur', row.dur)) do
      local n = #own.dur + 1
      own.dur[n], own.at[n], own.mark[n] = ns, row.t0 - own.t0 + at[i], mark[i]
    end
  end
  return out
end

return M
