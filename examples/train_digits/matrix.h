// The two dense operations that the network needs, over row-major storage.
#pragma once

#include <cstddef>
#include <vector>

namespace digits {

// A rows x inner matrix read through strides, so that a transpose is a view and not a copy.
template <typename T>
struct MatrixView {
  const T* data;
  size_t row_stride;
  size_t column_stride;
};

// c[rows x columns] += a[rows x inner] * b[inner x columns].
//
// Every element of c is summed over inner in ascending order, four at a time: the same bits for a row whatever the number of
// rows, so that an example's activations do not depend on how a batch was sliced. Four rows of b per pass over a row of c keep
// c out of the load and store ports.
template <typename T>
void multiply_add(size_t rows, size_t inner, size_t columns, MatrixView<T> a, const T* b, T* c) {
  for (size_t row = 0; row < rows; ++row) {
    const T* a_row = a.data + row * a.row_stride;
    T* __restrict c_row = c + row * columns;
    size_t k = 0;
    for (; k + 4 <= inner; k += 4) {
      const T a0 = a_row[k * a.column_stride];
      const T a1 = a_row[(k + 1) * a.column_stride];
      const T a2 = a_row[(k + 2) * a.column_stride];
      const T a3 = a_row[(k + 3) * a.column_stride];
      const T* __restrict b0 = b + k * columns;
      const T* __restrict b1 = b0 + columns;
      const T* __restrict b2 = b1 + columns;
      const T* __restrict b3 = b2 + columns;
      for (size_t j = 0; j < columns; ++j) c_row[j] += (a0 * b0[j] + a1 * b1[j]) + (a2 * b2[j] + a3 * b3[j]);
    }
    for (; k < inner; ++k) {
      const T a0 = a_row[k * a.column_stride];
      const T* __restrict b0 = b + k * columns;
      for (size_t j = 0; j < columns; ++j) c_row[j] += a0 * b0[j];
    }
  }
}

// result[columns x rows] = transpose of source[rows x columns].
template <typename T>
void transpose(size_t rows, size_t columns, const T* source, std::vector<T>& result) {
  result.resize(rows * columns);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) result[column * rows + row] = source[row * columns + column];
  }
}

}  // namespace digits
