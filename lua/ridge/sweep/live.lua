-- SPDX-License-Identifier: MIT
--- What a sweep looks like at this moment, as lines of a terminal: a table of how far it is, and
--- the map filling in. Read from the database; nothing is written, nothing timed is disturbed:
--- callers draw between timed regions, or in another process.

local canonical = require 'ridge.store.canonical'
local kinds = require 'ridge.sweep.picture'
local plain = require 'ridge.plain'
local queue = require 'ridge.store.queue'
local results = require 'ridge.store.results'
local unlike = require 'ridge.sweep.unlike'
local terminal = require 'ridge.plot.terminal'

local M = {}

-- Points beyond which a look costs more than a block of them.
local MOST = 4000

local ORDER = { 'ok', 'infeasible', 'implied', 'oom', 'timeout', 'error', 'crashed', 'cancelled',
  'pruned', 'running', 'pending' }

local GRADES = [[/* grades of a sweep */ SELECT coalesce(a.grade, '-') AS grade, count(*) AS n
  FROM main.trial t JOIN main.attempt a ON a.id = t.best_attempt
  WHERE t.sweep_id = ? AND t.role = 'point' AND a.outcome = 'ok' GROUP BY 1 ORDER BY 1]]

local STATES = [[/* states of points */ SELECT state, count(*) AS n FROM main.trial
  WHERE sweep_id = ? AND role = 'point' GROUP BY 1]]

--- The passes that every point of a sweep has; 1 where it is of protocol 1.
---@param st table store
---@param id integer
---@return integer n
function M.passes(st, id)
  local text = st.db:value([[/* protocol of a sweep */ SELECT p.json FROM main.sweep s
    JOIN main.protocol p ON p.id = s.protocol_id WHERE s.id = ?]], id)
  return text and canonical.decode(text).passes or 1
end

--- How far the points of a sweep are, in one line; anchors are none, as in `ridge sweeps`.
---@param st table store
---@param sweep table id, name
---@return string text
---@return table counts trials by state, anchors among them, and total
function M.summary(st, sweep)
  local all, parts, counts, total = queue.counts(st, sweep.id), {}, {}, 0
  for _, row in ipairs(st.db:query(STATES, sweep.id)) do
    counts[row.state], total = row.n, total + row.n
  end
  local wanted = M.passes(st, sweep.id)
  local work = wanted > 1 and queue.work(st, sweep.id, wanted, nil, true)
  if work and work.of then
    parts[1] = work.pass > wanted and ('pass %d of what is undecided %d/%d'):format(work.pass,
      work.at, work.of) or ('pass %d of %d %d/%d'):format(work.pass, wanted, work.at, work.of)
  end
  for _, state in ipairs(ORDER) do
    if counts[state] then parts[#parts + 1] = ('%d %s'):format(counts[state], state) end
  end
  local grades = {}
  for _, row in ipairs(st.db:query(GRADES, sweep.id)) do
    grades[#grades + 1] = ('%d %s'):format(row.n, row.grade)
  end
  if total == 0 then return plain.line(sweep.name) .. '  no points', all end
  return ('%s  %s of %d%s'):format(plain.line(sweep.name), table.concat(parts, ', '), total,
    #grades > 0 and '   grades ' .. table.concat(grades, ', ') or ''), all
end

--- How much of a sweep is done: passes of its points, of those that all of them have.
---@param st table store
---@param sweep table id
---@return number done
---@return number total
function M.done(st, sweep)
  local work = queue.work(st, sweep.id, M.passes(st, sweep.id), nil, true)
  return work.done, work.total
end

--- How long it will take yet, by what was done since somebody began to look.
---@param first table done, at_s: of the first look
---@param done number
---@param total number
---@param at_s number now
---@return number|nil s nil where nothing was done since, or nothing is left that has an end
function M.left(first, done, total, at_s)
  if done <= first.done or done >= total then return nil end
  return (total - done) * (at_s - first.at_s) / (done - first.done)
end

--- The map as it is now; no lines where there is nothing to draw.
---@param st table
---@param sweep table
---@param opt table columns, lines, depth, and x, y, z of the map
---@return table lines
function M.map(st, sweep, opt)
  local n = st.db:value('/* points */ SELECT count(*) FROM main.trial WHERE sweep_id = ?', sweep.id)
  if n > MOST then return {} end
  if #unlike.kinds(st, { sweep }) > 0 then
    return { 'no map: points are of unlike machines' }
  end
  -- one parameter, or nothing measured yet: that is no failure of the sweep
  local ok, figure = pcall(kinds.figure, 'map', st, sweep, { x = opt.x, y = opt.y, z = opt.z })
  if not ok then return {} end
  return terminal.lines(figure, opt)
end

--- The last points that failed, with their reasons.
---@param st table
---@param sweep table
---@param n integer at most
---@return table lines
function M.failures(st, sweep, n)
  local out = {}
  for _, row in ipairs(results.rows(st, sweep.id)) do
    if row.state ~= 'ok' and row.state ~= 'pending' and row.state ~= 'running'
        and row.state ~= 'implied' and #out < n then
      out[#out + 1] = ('trial %d: %s: %s'):format(row.trial, row.state,
        plain.line((row.reason or ''):gsub('%s+', ' ')))
    end
  end
  return out
end

return M
