-- SPDX-License-Identifier: MIT
--- The sweeps of a database: how far each is, in what it differs from the one before it, notes.

local blame = require 'ridge.blame'
local canonical = require 'ridge.store.canonical'
local notes = require 'ridge.store.notes'
local pack = require 'ridge.store.pack'
local query = require 'ridge.store.query'
local queue = require 'ridge.store.queue'

local M = {}

local DONE = { ok = true, infeasible = true, implied = true }

local function counted(rows, names)
  local parts = {}
  for _, name in ipairs(names) do
    if rows[name] and rows[name] > 0 then parts[#parts + 1] = ('%d %s'):format(rows[name], name) end
  end
  return table.concat(parts, ', ')
end

local function by_key(st, sql, id)
  local out = {}
  for _, row in ipairs(st.db:look(sql, id)) do out[row.k] = row.n end
  return out
end

local STATES = [[/* states */ SELECT state AS k, count(*) AS n FROM trial
  WHERE sweep_id = ? AND role = 'point' GROUP BY 1]]
local GRADES = [[/* grades */ SELECT a.grade AS k, count(*) AS n FROM trial t
  JOIN attempt a ON a.id = t.best_attempt
  WHERE t.sweep_id = ? AND t.role = 'point' AND a.grade IS NOT NULL GROUP BY 1]]
local LAST = [[/* last activity */ SELECT max(coalesce(a.ended, a.began)) FROM attempt a
  JOIN trial t ON t.id = a.trial_id WHERE t.sweep_id = ?]]

-- Points that ended last, and the time from the first beginning to the last end of them.
local RATE = [[/* rate */ SELECT count(*) AS n, max(ended) - min(began) AS us FROM (
  SELECT a.began, a.ended FROM attempt a JOIN trial t ON t.id = a.trial_id
  WHERE t.sweep_id = ? AND a.ended IS NOT NULL ORDER BY a.ended DESC LIMIT 64)]]

-- Seconds that a sweep under way still needs, at the rate of its last points; '' when none is.
local function left(st, sweep, states)
  if (states.running or 0) == 0 then return '' end
  local protocol = st.db:value([[/* protocol of a sweep */ SELECT p.json FROM sweep s
    JOIN protocol p ON p.id = s.protocol_id WHERE s.id = ?]], sweep.id)
  local work = queue.work(st, sweep.id, protocol and canonical.decode(protocol).passes or 1)
  local rest = math.max(work.total - work.done, states.running)
  local rate = st.db:query(RATE, sweep.id)[1]
  if rate.n == 0 or (rate.us or 0) <= 0 then return '' end
  local s = math.ceil(rest * rate.us / 1e6 / rate.n)
  return ('%d:%02d:%02d'):format(s / 3600, s / 60 % 60, s % 60)
end

--- How many points are in which state, and of which grade.
---@param st table
---@param id integer of the sweep
---@return table counts states, grades (numbers by word), last (microseconds since 1970, or nil)
function M.counts(st, id)
  return { states = by_key(st, STATES, id), grades = by_key(st, GRADES, id),
           last = st.db:value(LAST, id) }
end

--- How far a sweep is.
---@param st table
---@param sweep table id
---@return table far done, points, running, left ('h:mm:ss' at the rate of its last 64 points, ''
---  when none runs), failed and grades (texts, '' without any), last (a date, nil without one),
---  at (the same in microseconds since 1970)
function M.how_far(st, sweep)
  local head = pack.head(st, sweep.id)
  local counts = head and head.counts or M.counts(st, sweep.id)
  local states, all, done = counts.states, 0, 0
  for state, n in pairs(states) do
    all = all + n
    if DONE[state] then done = done + n end
  end
  local last = counts.last
  return { done = done, points = all, running = states.running or 0,
    left = left(st, sweep, states),
    failed = counted(states, { 'oom', 'timeout', 'error', 'crashed', 'cancelled' }),
    grades = counted(counts.grades, { 'A', 'B', 'C', 'D' }),
    last = last and os.date('%Y-%m-%d %H:%M', last / 1e6) or nil, at = last }
end

local UNITS = { m = 60, h = 3600, d = 86400, w = 7 * 86400 }

--- A moment in words of a command line, as microseconds since 1970; days are of the local time.
---@param text string today, yesterday, 90m, 12h, 7d, 2w, 2026-11-20
---@param now number seconds since 1970
---@return number|nil us nil where it is no moment
function M.moment(text, now)
  local n, unit = text:match '^(%d+)([mhdw])$'
  if n then return (now - tonumber(n) * UNITS[unit]) * 1e6 end
  local y, m, d = text:match '^(%d%d%d%d)-(%d%d)-(%d%d)$'
  local day = os.date('*t', now)
  if y then
    day = { year = tonumber(y), month = tonumber(m), day = tonumber(d) }
    local back = os.date('*t', os.time { year = day.year, month = day.month, day = day.day })
    if back.month ~= day.month or back.day ~= day.day then return nil end -- no such day
  elseif text == 'yesterday' then
    day.day = day.day - 1
  elseif text ~= 'today' then
    return nil
  end
  return os.time { year = day.year, month = day.month, day = day.day, hour = 0 } * 1e6
end

-- A column of texts, where any row has one.
local function add_column(found, title, texts)
  if next(texts) == nil then return end
  found.titles[#found.titles + 1] = title
  for i, line in ipairs(found.lines) do line[#found.titles] = texts[i] end
end

--- The sweeps of an open database, the newest first, and how far each is: points done and running,
--- the time that is left at the rate of its last 64 points, failures by cause, grades, and by which
--- version of the measuring protocol; where there is any, in what each differs from the one of its
--- name before it, and the newest note on it.
---@param st table
---@param opt table|nil since: a moment in words, before which those ended that are left out;
---  like: a part of the name in any case, or the name with * and ?
---@return table found titles, lines
function M.list(st, opt)
  local differs, noted = {}, {}
  local found = { lines = {}, titles = { 'sweep', 'done', 'points', 'running', 'left', 'failed',
    'grades', 'last', 'protocol' } }
  opt = opt or {}
  local since = opt.since and M.moment(opt.since, os.time())
  if opt.since and not since then
    blame.raise(("since: '%s' is not like yesterday, 7d or 2026-11-20"):format(opt.since), 'EARG')
  end
  for _, sweep in ipairs(st.db:query [[/* sweeps */ SELECT s.id, s.name, s.created, s.generation,
      p.version AS protocol, (SELECT b.id FROM main.sweep b WHERE b.base = s.base
        AND b.generation < s.generation ORDER BY b.generation DESC LIMIT 1) AS before
      FROM main.sweep s JOIN main.protocol p ON p.id = s.protocol_id ORDER BY s.id DESC]]) do
    local far = query.matches(sweep.name, opt.like) and M.how_far(st, sweep)
    if far and (far.at or sweep.created) >= (since or 0) then
      local i = #found.lines + 1
      found.lines[i] = { sweep.name, far.done, far.points, far.running, far.left, far.failed,
        far.grades, far.last, sweep.protocol }
      local text = sweep.before and notes.differences(st, { id = sweep.before }, sweep) or ''
      differs[i] = text ~= '' and text or nil
      local list = notes.of(st, sweep)
      noted[i] = list[#list] and list[#list].text
    end
  end
  add_column(found, 'differs', differs)
  add_column(found, 'note', noted)
  return found
end

return M
