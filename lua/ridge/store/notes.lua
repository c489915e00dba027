-- SPDX-License-Identifier: MIT
--- Notes of people on sweeps: 'new BIOS', dated, in the table of what a file is (meta), so that
--- files of this schema need no other. They are only ever added.

local clock = require 'ridge.store.clock'
local identity = require 'ridge.store.identity'

local M = {}

local LONGEST = 10000 -- bytes

local function prefix(st, sweep)
  return ('note %s '):format(st.db:value(
    '/* uuid of a sweep */ SELECT hex(uuid) FROM main.sweep WHERE id = ?', sweep.id))
end

--- Add a note.
---@param st table open for writing
---@param sweep table id
---@param text string
---@return boolean added false where it is empty or longer than 10,000 bytes
function M.add(st, sweep, text)
  if text:find '^%s*$' or #text > LONGEST then return false end
  local key, at = prefix(st, sweep), clock.now_us()
  st:within(function()
    while st.db:value('/* a note then */ SELECT 1 FROM main.meta WHERE key = ?',
        ('%s%.0f'):format(key, at)) do
      at = at + 1 -- two of one microsecond
    end
    st.db:insert('meta', { key = ('%s%.0f'):format(key, at), value = text })
  end)
  return true
end

--- The notes on a sweep, the oldest first.
---@param st table
---@param sweep table id
---@return table[] notes each at (microseconds since 1970), text
function M.of(st, sweep)
  local key, list = prefix(st, sweep), {}
  for i, row in ipairs(st.db:look([[/* notes */ SELECT key, value FROM main.meta
      WHERE substr(key, 1, ?1) = ?2 ORDER BY length(key), key]], #key, key)) do
    list[i] = { at = tonumber(row.key:sub(#key + 1)) or 0, text = row.value }
  end
  return list
end

local FACTS = [[/* what a sweep is */ SELECT s.args, s.space, s.seed, r.sha AS recipe_sha,
    r.name AS recipe_name, p.json AS protocol,
    (SELECT group_concat(DISTINCT hex(m.fp)) FROM main.trial t
      JOIN main.attempt a ON a.id = t.best_attempt JOIN main.env e ON e.id = a.env_id
      JOIN main.machine m ON m.id = e.machine_id WHERE t.sweep_id = s.id) AS machine,
    (SELECT group_concat(DISTINCT b.git) FROM main.trial t
      JOIN main.attempt a ON a.id = t.best_attempt JOIN main.env e ON e.id = a.env_id
      JOIN main.build b ON b.id = e.build_id WHERE t.sweep_id = s.id) AS build
  FROM main.sweep s JOIN main.protocol p ON p.id = s.protocol_id
  JOIN main.recipe r ON r.id = s.recipe_id WHERE s.id = ?]]

--- In what a sweep differs from an earlier one.
---@param st table
---@param a table id of the earlier one
---@param b table id of the later one
---@return string text 'the space (width: ...), another machine, commit 1a2b -> 3c4d'; '' where in
---  nothing that is stored
function M.differences(st, a, b)
  local was, is, parts = st.db:row(FACTS, a.id), st.db:row(FACTS, b.id), {}
  is.recipe_name = is.recipe_name or '?'
  local ok, text = pcall(identity.changes, was, is) -- what is stored may be anybody's
  if ok and text ~= '' then parts[1] = text end
  if was.machine and is.machine and was.machine ~= is.machine then
    parts[#parts + 1] = 'another machine'
  end
  if was.build and is.build and was.build ~= is.build then
    parts[#parts + 1] = ('commit %s -> %s'):format(was.build:sub(1, 9), is.build:sub(1, 9))
  end
  return table.concat(parts, ', ')
end

return M
