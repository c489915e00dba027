-- SPDX-License-Identifier: MIT
-- A results database with one sweep of many points, made by SQL alone, whose every text is meant to
-- break a page.

local canonical = require 'ridge.store.canonical'
local sqlite = require 'ridge.store.sqlite'
local store = require 'ridge.store'

local M = {}

--- What stands in every text.
M.EVIL = [[</pre></title></table><script>alert(1)</script><img src=x onerror=alert(2)>'"&amp;]]

--- Make one.
---@param path string
---@param n integer points
---@param opt table|nil state (of all), grade (of all), flags, times (that each text is as long)
function M.make(path, n, opt)
  opt = opt or {}
  local st = store.open(path, 'write')
  local db, evil = st.db, M.EVIL:rep(opt.times or 1)
  local function hash(text) return sqlite.blob(canonical.hash(text)) end
  db:transaction(function()
    db:insert('machine', { id = 1, fp = hash 'm', hostname = evil, cpu = 'CPU ' .. evil, cores = 2,
      threads = 4, os = evil, kernel = evil })
    db:insert('device', { id = 1, machine_id = 1, kind = 'cpu', uuid = 'cpu', name = evil })
    db:insert('build', { id = 1, fp = hash 'b', ridge = '0.1.0', git = '4f2a91c', compiler = evil,
      debug = 0, libs = '{}' })
    db:insert('env', { id = 1, fp = hash 'e', machine_id = 1, build_id = 1, device_id = 1,
      governor = evil, vars = '{"threads":2}' })
    db:insert('recipe', { id = 1, sha = hash 'r', name = evil, source = evil .. '\0\27[31m\255' })
    db:insert('protocol', { id = 1, sha = hash 'p', json = '{"passes":5}', version = 2 })
    db:insert('worker', { id = 1, uuid = hash 'w', machine_id = 1, boot_id = '', pid = 1, lock = '',
      started = 1 })
    db:insert('sweep', { id = 1, uuid = hash 's', name = 'points', base = 'points', recipe_id = 1,
      protocol_id = 1, args = canonical.encode { note = evil }, seed = 1, strategy = 'grid',
      space = '{"params":{}}', created = 1 })
    db:insert('meta', { key = ('note %s 1'):format(db:value 'SELECT hex(uuid) FROM sweep'),
      value = evil })
    local failed = opt.state and opt.state ~= 'ok'
    db:exec(([[
      CREATE TEMP TABLE n AS WITH RECURSIVE i(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM i
        WHERE i < %d) SELECT i, 16 * (1 + i %% 50) AS width, 1 + i / 50 AS batch FROM i
        WHERE %d > 0;
      INSERT INTO config SELECT i, CAST(i AS BLOB), json_object('width', width, 'batch', batch,
        'kind', %s) FROM n;
      INSERT INTO param(config_id, name, num) SELECT i, 'width', width FROM n;
      INSERT INTO param(config_id, name, num) SELECT i, 'batch', batch FROM n;
      INSERT INTO param(config_id, name, txt) SELECT i, 'kind', %s FROM n;
      INSERT INTO trial(id, uuid, sweep_id, config_id, ord, state, tries)
        SELECT i, CAST('t' || i AS BLOB), 1, i, i, '%s', 1 FROM n;
      INSERT INTO attempt(id, uuid, trial_id, n, worker_id, env_id, began, ended, outcome, message,
        grade, flags) SELECT i, CAST('a' || i AS BLOB), i, 1, 1, 1, 1767323045000000 + i,
        1767323045000001 + i, '%s', %s, %s, %s FROM n;
      UPDATE trial SET best_attempt = id;
      DROP TABLE n]]):format(math.max(n, 1), n, M.sql(evil), M.sql(evil), opt.state or 'ok',
      opt.state or 'ok', failed and M.sql(evil) or 'NULL',
      failed and 'NULL' or M.sql(opt.grade or 'A'), M.sql(opt.flags or '')), 'points')
    if not failed then
      db:exec([[INSERT INTO timing(attempt_id, phase, clock, cache, n, inner, min, p95, med, ci_lo,
          ci_hi, grade) SELECT id, 'fwd', 'c', 'warm', 15, 1, 90 + id, 120 + id, 100 + id,
          98.0 + id, 102.0 + id, grade FROM attempt]], 'timings')
    end
  end)
  st:close()
end

--- A text as SQL.
---@param text string
---@return string
function M.sql(text) return "'" .. text:gsub("'", "''") .. "'" end

return M
