-- SPDX-License-Identifier: MIT
--- What a net remembers of how it was pruned.

local M = {}

--- Note on a net which layers were pruned, and why others were not.
---@param net table
---@param method string 'magnitude', ...
---@param list table[] {name, why}
---@param pattern table|nil
---@return table net
function M.attach(net, method, list, pattern)
  local why = {}
  for _, row in ipairs(list) do why[row.name] = row.why end
  rawset(net, '_prune', { method = method, pattern = pattern and pattern.name, why = why })
  return net
end

--- What was noted, or an empty table.
---@param net table
---@return table about method, pattern, why (by the names of layers)
function M.of(net)
  local about = rawget(net, '_prune')
  if type(about) ~= 'table' or type(about.why) ~= 'table'
    or about.pattern ~= nil and type(about.pattern) ~= 'string' then
    return { why = {} } -- of a file
  end
  return about
end

return M
