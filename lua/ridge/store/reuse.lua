-- SPDX-License-Identifier: MIT
--- What was measured before and need not be measured again: the same parameters under the same
--- recipe, arguments, protocol and environment, by a point of another space of the same sweep.
--
-- A recipe may declare several sweeps, which measure different things at the same parameters: only
-- those of one name are the same work, unless the sweep says that its parameters are all there is
-- to know (`any_name`, as benchmarks of models written as text).
--
-- A sweep that is started again with the same space is asked to measure again, and does, whatever
-- other spaces were measured since. Points of grade D were disturbed and are no help to anybody.

local M = {}

-- The newest attempt that fits each pending point: by when it was made, as merging another file
-- gives old attempts new numbers.
local FOUND = [[/* reusable */
  SELECT t.id AS trial, a.id AS attempt, o.passes, max(a.began)
  FROM trial t
  JOIN sweep s ON s.id = t.sweep_id
  JOIN trial o ON o.config_id = t.config_id AND o.sweep_id <> t.sweep_id AND o.role = 'point'
    AND o.state = 'ok'
  JOIN sweep p ON p.id = o.sweep_id AND p.recipe_id = s.recipe_id
    AND p.protocol_id = s.protocol_id AND p.args = s.args AND (?3 OR p.base = s.base)
  JOIN attempt a ON a.id = o.best_attempt AND a.outcome = 'ok' AND a.grade < 'D' AND a.env_id = ?2
  WHERE t.sweep_id = ?1 AND t.state = 'pending' AND t.role = 'point' AND t.tries = 0
    AND (?4 = 1 OR t.shard % ?4 = ?5)
  GROUP BY t.id]]

-- An earlier one of the same name and space: it is not to be taken, nor what others took of it.
local STARTED_AGAIN = [[/* started again */ SELECT 1 FROM sweep s JOIN sweep e ON e.base = s.base
  AND e.recipe_id = s.recipe_id AND e.protocol_id = s.protocol_id AND e.args = s.args
  AND e.space = s.space AND e.generation < s.generation WHERE s.id = ?1]]

--- Give points of a sweep that nobody has tried the results that fit them.
---@param st table store open for writing
---@param sweep_id integer
---@param env_id integer where it would be measured
---@param any_name boolean|nil also of sweeps of another name
---@param shard table|nil i (from 0) and n: only points of this one
---@return integer n how many points need not be measured
function M.take(st, sweep_id, env_id, any_name, shard)
  return st:within(function()
    if st.db:value(STARTED_AGAIN, sweep_id) then return 0 end
    local rows = st.db:query(FOUND, sweep_id, env_id, any_name and 1 or 0, shard and shard.n or 1,
      shard and shard.i or 0)
    for _, row in ipairs(rows) do
      st.db:run([[/* reuse */ UPDATE trial SET state='ok', best_attempt=?, reused=1, passes=?
        WHERE id=?]], row.attempt, row.passes, row.trial)
    end
    return #rows
  end)
end

--- Seconds that a point of the same recipe and protocol took on this machine, blocks and waiting
--- included; nil where none was measured.
---@param st table
---@param sweep_id integer
---@param env_id integer
---@return number|nil seconds
function M.seconds_a_point(st, sweep_id, env_id)
  local row = st.db:row([[/* seconds a point */
    SELECT sum(w.n) AS n, sum(w.us) AS us FROM (
      SELECT count(*) AS n, max(a.ended) - min(a.began) AS us
      FROM sweep s JOIN sweep p ON p.recipe_id = s.recipe_id AND p.protocol_id = s.protocol_id
      JOIN trial t ON t.sweep_id = p.id
      JOIN attempt a ON a.trial_id = t.id AND a.env_id = ?2 AND a.ended IS NOT NULL
      WHERE s.id = ?1 GROUP BY a.worker_id) w]], sweep_id, env_id)
  return row and row.n and row.n > 0 and row.us / row.n / 1e6 or nil
end

return M
