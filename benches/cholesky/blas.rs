//! The operations on tiles of a BLAS with LAPACK, such as OpenBLAS: the library is loaded when the bench starts, so that both schedulers
//! run the same code on tiles.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::marker::PhantomData;

use boxwork_kernels::cholesky::{Number, TileKernels};

type Word = *const c_char;
type Count = *const c_int;
type Factor<T> = unsafe extern "C" fn(Word, Count, *mut T, Count, *mut c_int);
type Solve<T> =
    unsafe extern "C" fn(Word, Word, Word, Word, Count, Count, *const T, *const T, Count, *mut T, Count);
type Square<T> =
    unsafe extern "C" fn(Word, Word, Count, Count, *const T, *const T, Count, *const T, *mut T, Count);
type Product<T> = unsafe extern "C" fn(
    Word,
    Word,
    Count,
    Count,
    Count,
    *const T,
    *const T,
    Count,
    *const T,
    Count,
    *const T,
    *mut T,
    Count,
);

/// The functions of a library for one type of numbers.
#[derive(Clone, Copy)]
pub(super) struct Blas<T> {
    factor: Factor<T>,
    solve: Solve<T>,
    square: Square<T>,
    product: Product<T>,
    numbers: PhantomData<T>,
}

/// A library that stays loaded.
#[derive(Clone, Copy)]
pub(super) struct Library(*mut c_void);

impl Library {
    /// Loads a library and leaves its threads out; says what is missing otherwise.
    pub(super) fn open(path: &str) -> Option<Self> {
        let name = CString::new(path).ok()?;
        // SAFETY: a library of this kind runs no code that depends on ours when it is loaded.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            println!("peer        NOT MEASURED: no {path}; on Debian: apt-get install libopenblas0-pthread");
            return None;
        }
        let library = Self(handle);
        if let Some(set) = library.symbol(c"openblas_set_num_threads") {
            // SAFETY: OpenBLAS declares it as `void openblas_set_num_threads(int)`.
            let set: unsafe extern "C" fn(c_int) = unsafe { std::mem::transmute(set) };
            // SAFETY: no other thread uses the library yet.
            unsafe { set(1) };
        }
        Some(library)
    }

    fn symbol(self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle is that of an open library, which is never closed.
        let symbol = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!symbol.is_null()).then_some(symbol)
    }

    /// Its functions; `letter` is that of the numbers, s or d.
    pub(super) fn functions<T: Number>(self, letter: char) -> Option<Blas<T>> {
        let of = |name: &str| self.symbol(&CString::new(format!("{letter}{name}_")).ok()?);
        let [factor, solve, square, product] = [of("potrf")?, of("trsm")?, of("syrk")?, of("gemm")?];
        // SAFETY: these are the declarations of the reference BLAS and LAPACK, with numbers of the type that the letter says. The lengths
        // of words that Fortran appends are not read for words of one letter.
        unsafe {
            Some(Blas {
                factor: std::mem::transmute::<*mut c_void, Factor<T>>(factor),
                solve: std::mem::transmute::<*mut c_void, Solve<T>>(solve),
                square: std::mem::transmute::<*mut c_void, Square<T>>(square),
                product: std::mem::transmute::<*mut c_void, Product<T>>(product),
                numbers: PhantomData,
            })
        }
    }
}

impl<T: Number> TileKernels<T> for Blas<T> {
    fn factor(&self, tile: &mut [T], size: usize) -> Result<(), usize> {
        let (n, mut info) = (size as c_int, 0);
        assert!(tile.len() >= size * size, "a whole tile");
        // SAFETY: the tile has `size` columns of `size` rows.
        unsafe { (self.factor)(c"L".as_ptr(), &n, tile.as_mut_ptr(), &n, &mut info) };
        if info == 0 { Ok(()) } else { Err(info.max(1) as usize - 1) }
    }

    fn solve(&self, triangle: &[T], tile: &mut [T], size: usize) {
        let (n, rows, one) = (size as c_int, (tile.len() / size) as c_int, T::of(1.0));
        assert!(triangle.len() >= size * size, "a whole triangle");
        let [right, lower, turned, not_unit] = [c"R", c"L", c"T", c"N"].map(CStr::as_ptr);
        // SAFETY: the triangle has `size` columns of `size` rows, and the tile as many of `rows`.
        unsafe {
            let (of, to) = (triangle.as_ptr(), tile.as_mut_ptr());
            (self.solve)(right, lower, turned, not_unit, &rows, &n, &one, of, &n, to, &rows);
        }
    }

    fn square(&self, factor: &[T], tile: &mut [T], size: usize) {
        let (n, less, one) = (size as c_int, T::of(-1.0), T::of(1.0));
        assert!(factor.len() >= size * size && tile.len() >= size * size, "whole tiles");
        let [lower, plain] = [c"L", c"N"].map(CStr::as_ptr);
        // SAFETY: both tiles have `size` columns of `size` rows.
        unsafe {
            (self.square)(lower, plain, &n, &n, &less, factor.as_ptr(), &n, &one, tile.as_mut_ptr(), &n);
        }
    }

    fn product(&self, left: &[T], right: &[T], tile: &mut [T], size: usize) {
        let (n, rows, less, one) = (size as c_int, (tile.len() / size) as c_int, T::of(-1.0), T::of(1.0));
        assert!(left.len() >= tile.len() && right.len() >= size * size, "whole tiles");
        let [plain, turned] = [c"N", c"T"].map(CStr::as_ptr);
        // SAFETY: all tiles have `size` columns, the right one of `size` rows and the others of `rows`.
        unsafe {
            let (of, by, to) = (left.as_ptr(), right.as_ptr(), tile.as_mut_ptr());
            (self.product)(plain, turned, &rows, &n, &n, &less, of, &rows, by, &n, &one, to, &rows);
        }
    }
}
