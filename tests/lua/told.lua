-- SPDX-License-Identifier: MIT
-- Lines of Lua as somebody types them, and what each gives, as one text for approval: values with
-- their names in order and six digits, errors by their sentence.

local M = {}

local function number(v)
  if v ~= v then return 'nan' end
  if v == math.huge or v == -math.huge then return v > 0 and 'inf' or '-inf' end
  return ('%.6g'):format(v)
end

local function keys(t)
  local list = {}
  for key in pairs(t) do if type(key) ~= 'number' then list[#list + 1] = tostring(key) end end
  table.sort(list)
  return list
end

--- A value in one line; of a table the list first, then what has names.
function M.value(v)
  if type(v) == 'number' then return number(v) end
  if type(v) == 'string' then return v end
  if type(v) ~= 'table' then return type(v) == 'function' and 'function' or tostring(v) end
  local out = {}
  for i = 1, #v do out[i] = M.value(v[i]) end
  for _, key in ipairs(keys(v)) do out[#out + 1] = key .. '=' .. M.value(rawget(v, key)) end
  return '{' .. table.concat(out, ', ') .. '}'
end

--- An error by its code and sentence; what is no error of ridge's is a crash.
function M.failure(err)
  if type(err) == 'table' and err.message then
    return ('%s %s'):format(err.code, err.message)
  end
  return 'CRASHED ' .. tostring(err)
end

--- Every line of a text evaluated, with those behind it that begin with spaces; a list of tables
--- has a line for each.
---@param lines string
---@param env table what the lines see beside Lua's own
---@return string text
function M.all(lines, env)
  setmetatable(env, { __index = _G })
  local out = {}
  local function put(...)
    for i = 1, math.max(1, select('#', ...)) do
      local v = select(i, ...)
      if type(v) == 'table' and type(v[1]) == 'table' and not v[1][1] then
        for k = 1, #v do out[#out + 1] = '  ' .. M.value(v[k]) end
      else
        out[#out + 1] = '  ' .. M.value(v)
      end
    end
  end
  local function tried(ok, ...)
    if ok then put(...) else out[#out + 1] = '  ' .. M.failure((...)) end
  end
  for line in lines:gsub('\n  +', ' '):gmatch '[^\n]+' do
    out[#out + 1] = line
    if not line:find '^%-%-' then
      tried(pcall(setfenv(assert(loadstring('return ' .. line, '=typed')), env)))
    end
  end
  return table.concat(out, '\n')
end

return M
