-- SPDX-License-Identifier: MIT
--- Near misses: which known names a misspelt one may have meant.
--
-- The distance is Damerau's (insert, delete, replace, swap of neighbours: the four ways a hand
-- slips), in its restricted form; a name is near if a third of its letters, at least one, are wrong
-- at most, and one letter at least is right.

local M = {}

--- How many slips of the hand lead from one word to the other.
---@param a string one word
---@param b string the other
---@return integer distance
function M.distance(a, b)
  local before, last, row = {}, {}, {}
  for j = 0, #b do last[j] = j end
  for i = 1, #a do
    row[0] = i
    for j = 1, #b do
      local same = a:byte(i) == b:byte(j)
      local best = math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (same and 0 or 1))
      if i > 1 and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then
        best = math.min(best, before[j - 2] + 1)
      end
      row[j] = best
    end
    before, last, row = last, row, before
  end
  return last[#b]
end

--- The known names near a word, nearest first.
---@param word string what was written
---@param names string[] what is known
---@param limit? integer at most so many, 3 if not given
---@return string[] near names; empty if none is near
function M.names(word, names, limit)
  local found, seen = {}, {}
  local small = word:lower()
  for _, name in ipairs(names) do
    if not seen[name] and name ~= word then
      seen[name] = true
      local most = math.max(1, math.floor(math.max(#word, #name) / 3))
      local begins = #word >= 3 and name:lower():sub(1, #word) == small
      -- there are at least as many slips as one is longer than the other
      local slips = math.abs(#word - #name)
      if slips <= most or begins then slips = M.distance(small, name:lower()) end
      if slips <= most and slips < math.max(#word, #name) or begins then
        found[#found + 1] = { name = name, slips = begins and math.min(slips, 1) or slips }
      end
    end
  end
  table.sort(found, function(a, b)
    if a.slips ~= b.slips then return a.slips < b.slips end
    return a.name < b.name
  end)
  local list = {}
  for i = 1, math.min(limit or 3, #found) do list[i] = found[i].name end
  return list
end

--- " (did you mean 'stride'?)", or "" if nothing is near: to be put behind a message.
---@param word string what was written
---@param names string[] what is known
---@return string text
function M.hint(word, names)
  local list = M.names(word, names, 2)
  if #list == 0 then return '' end
  return (" (did you mean '%s'?)"):format(table.concat(list, "' or '"))
end

return M
