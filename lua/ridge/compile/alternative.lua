-- SPDX-License-Identifier: MIT
--- An alternative of single nodes: which kinds of nodes of a graph have it, and the edit that puts
--- it in the place of some. What is found out of a kind is kept in the table of choices.

local choices = require 'ridge.plan_choices'

local M = {}

local MOST = 12 -- kinds that are tried in one graph, the heaviest first

--- Tensors as text, for the text of a kind; '-' where there is none.
---@param values table
---@return string
function M.metas(values)
  local list = {}
  for i, value in ipairs(values) do
    list[i] = value and ('%s[%s]'):format(value.dtype, table.concat(value.shape, ',')) or '-'
  end
  return table.concat(list, ' ')
end

--- Arguments as text, for the text of a kind.
---@param args table
---@return string
function M.words(args)
  local list = {}
  for name, value in pairs(args) do
    list[#list + 1] = ('%s=%s'):format(name,
      type(value) == 'table' and table.concat(value, 'x') or tostring(value))
  end
  table.sort(list)
  return table.concat(list, ' ')
end

--- The alternative as a module.
---@param opts table {choice = its name in the table of choices, heavy = 'flops' or 'bytes': what
---  kinds are ordered by, kind_of = function(node), nil where it has none, take_apart =
---  function(graph, node)}
---@return table {kinds = function(graph), edit = function(more)}
function M.of(opts)
  local its = {}

  -- Kinds of nodes of a graph that have the alternative, the heaviest first.
  function its.kinds(graph)
    local sum, list = {}, {}
    for _, node in ipairs(graph:nodes()) do
      local kind = opts.kind_of(node)
      if kind then
        if not sum[kind] then list[#list + 1] = kind end
        sum[kind] = (sum[kind] or 0) + node[opts.heavy]
      end
    end
    table.sort(list, function(a, b)
      if sum[a] ~= sum[b] then return sum[a] > sum[b] end
      return a < b
    end)
    for i = #list, MOST + 1, -1 do list[i] = nil end
    return list
  end

  -- A function that takes nodes of the kinds in `more` apart, and of those found to be faster so.
  function its.edit(more)
    return function(graph)
      for _, node in ipairs(graph:nodes()) do
        local kind = opts.kind_of(node)
        if kind and (more and more[kind]
            or choices.get(opts.choice, choices.problem(kind)) == 'apart') then
          opts.take_apart(graph, node)
        end
      end
    end
  end

  return its
end

return M
