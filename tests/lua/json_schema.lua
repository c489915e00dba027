-- SPDX-License-Identifier: MIT
--- A value held against a JSON schema: the keywords that the schemas here use, and an error of any
--- other one.

local M = {}

local IGNORED = { ['$comment'] = true, ['$schema'] = true, title = true, description = true }

-- An empty table may be either.
local function is_array(value)
  return type(value) == 'table' and (next(value) == nil or value[1] ~= nil)
end

local function is_object(value)
  return type(value) == 'table' and (next(value) == nil or value[1] == nil)
end

local TYPES = {
  object = is_object, array = is_array,
  string = function(value) return type(value) == 'string' end,
  number = function(value) return type(value) == 'number' end,
  integer = function(value) return type(value) == 'number' and value % 1 == 0 end,
  boolean = function(value) return type(value) == 'boolean' end,
}

local KEYWORDS = {}

function KEYWORDS.type(wanted, value)
  for _, name in ipairs(type(wanted) == 'table' and wanted or { wanted }) do
    if TYPES[name](value) then return nil end
  end
  return ('is no %s'):format(type(wanted) == 'table' and table.concat(wanted, ' or ') or wanted)
end

function KEYWORDS.const(wanted, value)
  if value ~= wanted then return ('is %s, not %s'):format(tostring(value), tostring(wanted)) end
end

function KEYWORDS.enum(list, value)
  for _, wanted in ipairs(list) do
    if value == wanted then return nil end
  end
  return ('is %s, which is none of %s'):format(tostring(value), table.concat(list, ', '))
end

function KEYWORDS.minimum(least, value)
  if type(value) == 'number' and not (value >= least) then return ('is %s'):format(value) end
end

function KEYWORDS.minProperties(least, value)
  local n = 0
  for _ in pairs(value) do n = n + 1 end
  if n < least then return ('has %d properties'):format(n) end
end

function KEYWORDS.required(names, value)
  for _, name in ipairs(names) do
    if value[name] == nil then return 'has no ' .. name end
  end
end

function KEYWORDS.properties(schemas, value)
  for name, schema in pairs(schemas) do
    local why = value[name] ~= nil and M.against(schema, value[name])
    if why then return ('%s %s'):format(name, why) end
  end
end

function KEYWORDS.additionalProperties(rule, value, schema)
  for name, inner in pairs(type(value) == 'table' and value or {}) do
    if not (schema.properties or {})[name] then
      local why = rule == false and 'is not expected' or rule ~= true and M.against(rule, inner)
      if why then return ('%s %s'):format(tostring(name), why) end
    end
  end
end

function KEYWORDS.items(schema, value)
  for i, inner in ipairs(value) do
    local why = M.against(schema, inner)
    if why then return ('%d: %s'):format(i, why) end
  end
end

function KEYWORDS.oneOf(schemas, value)
  local n, reasons = 0, {}
  for i, schema in ipairs(schemas) do
    reasons[i] = M.against(schema, value)
    if not reasons[i] then n = n + 1 end
    reasons[i] = reasons[i] or 'fits'
  end
  if n ~= 1 then return ('fits %d: %s'):format(n, table.concat(reasons, '; ')) end
end

--- Hold a value against a schema.
---@param schema table
---@param value any as ridge.store.canonical decodes it
---@return string|nil why it does not fit
function M.against(schema, value)
  local why = schema.type and KEYWORDS.type(schema.type, value)
  if why then return why end
  for name, rule in pairs(schema) do
    if not IGNORED[name] then
      assert(KEYWORDS[name], 'a keyword that is not known: ' .. name)
      why = KEYWORDS[name](rule, value, schema)
      if why then return why end
    end
  end
end

return M
